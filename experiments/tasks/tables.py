"""Reading tab-separated files: pairs, and what belongs to which split."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from experiments.tasks.files import read_text


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


def numbered(names: Iterable[str]) -> list[int]:
    """0, 1, ... for names in order of first appearance; equal names, equal numbers."""
    seen: dict[str, int] = {}
    return [seen.setdefault(name, len(seen)) for name in names]
