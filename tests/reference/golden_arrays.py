"""The stored numbers, with their tolerances."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import torch

FOLDER = Path(__file__).parent / "golden"
MANIFEST = json.loads((FOLDER / "manifest.json").read_text())["files"]


@cache
def _file(name):
    return np.load(FOLDER / name)


class Case:
    """One case of a file: `case("q")` is a tensor; `case.expect(ours, "out")` compares within the case's tolerance."""

    def __init__(self, file, name):
        self.file, self.name = file, name
        self.atol = MANIFEST[file][name]["atol"]
        self.fields = list(MANIFEST[file][name]["arrays"])

    def __call__(self, field):
        return torch.from_numpy(_file(self.file)[f"{self.name}/{field}"].copy())

    def has(self, field):
        return field in self.fields

    def expect(self, ours, field, atol=None):
        theirs = self(field)
        torch.testing.assert_close(ours.to(theirs.dtype), theirs, atol=self.atol if atol is None else atol, rtol=0)


def cases(file, prefix=""):
    return [name for name in MANIFEST[file] if name.startswith(prefix)]
