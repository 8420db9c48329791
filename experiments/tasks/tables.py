"""Reading tab-separated files: pairs, and what belongs to which split."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from experiments.tasks.files import read_text
from experiments.tasks.splits import SPLITS


def read_columns(path: Path, what: str, columns: int) -> list[list[str]]:
    """Lines of a tab-separated UTF-8 file.

    Raises:
        ValueError: as `read_text`, or a line without exactly `columns` non-empty columns.
    """
    lines = read_text(path, what).text.split("\n")
    rows = [line.split("\t") for line in lines]
    for number, row in enumerate(rows, 1):
        if row != [""] and (len(row) != columns or not all(cell.strip() for cell in row)):
            raise ValueError(
                f"{what}='{path}' line {number} has {len(row)} columns, or an empty one; every line needs "
                f"{columns} texts with a tab between them: {lines[number - 1][:80]!r}"
            )
    return [row for row in rows if row != [""]]


def hashed_split(name: str) -> str:
    """`validation` or `test` for one name in twenty each, else `train`; the same on every machine."""
    place = int(hashlib.sha256(name.encode()).hexdigest(), 16) % 20
    return {0: "validation", 10: "test"}.get(place, "train")


def members(splits: Sequence[str], examples: Sequence[Hashable]) -> dict[str, NDArray[np.int64]]:
    """Rows of each split, without those whose example an earlier split has: train first, then validation."""
    first: dict[Hashable, str] = {}
    for split in SPLITS:
        for own, example in zip(splits, examples, strict=True):
            if own == split:
                first.setdefault(example, split)
    kept = [own if first[example] == own else "" for own, example in zip(splits, examples, strict=True)]
    return {split: np.flatnonzero(np.array(kept) == split) for split in SPLITS}


def numbered(names: Iterable[Hashable]) -> list[int]:
    """0, 1, ... for names in order of first appearance; equal names, equal numbers."""
    seen: dict[Hashable, int] = {}
    return [seen.setdefault(name, len(seen)) for name in names]
