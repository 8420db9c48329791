"""The README's table of verdicts, from a committed summary: `python -m analysis.verdicts.readme`."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from analysis.verdicts.summary import read
from analysis.verdicts.table import effect_words
from experiments.records import write_bytes

BEGIN, END = "<!-- verdicts: written by `python -m analysis.verdicts.readme` -->", "<!-- end of verdicts -->"


def table(content: Mapping[str, Any]) -> str:
    """One row a claim that was run: the sentence, and what became of each of its primary parts."""
    rows = ["| the sentence | what came out (effect in favour of it, interval, seeds) |", "| --- | --- |"]
    for claim in content["claims"]:
        parts = [_part(v) for v in claim["verdicts"] if v["primary"]]
        if parts and claim["stopped"] != "not run":
            rows.append(f"| {claim['statement']} (`{claim['claim']}`) | {'<br>'.join(parts)} |".replace("\n", " "))
    return "\n".join(rows)


def _part(v: Mapping[str, Any]) -> str:
    value, low, high = (math.nan if v[key] is None else v[key] for key in ("effect", "low", "high"))
    effect = effect_words(value, low, high, v["unit"])
    seeds = f"; n = {v['n']}" if v["by_seeds"] and v["n"] else ""
    unit = f" {v['unit']}" if effect and v["unit"] not in ("", "ratio") else ""
    words = f": {effect}{unit}{seeds}" if effect else ""
    return f"**{v['label'].lower()}**: {v['says']}{words}".replace("|", "\\|")


def rewritten(text: str, content: Mapping[str, Any]) -> str:
    """The README with its table replaced.

    Raises:
        ValueError: the README has not exactly one place for it.
    """
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"the README needs one line '{BEGIN}' and, below it, one line '{END}'")
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n\n{table(content)}\n\n{END}{rest.split(END)[1]}"


def main(arguments: Sequence[str]) -> int:
    """Rewrites README.md from results/reference, or the files that are named."""
    readme, folder = [Path(word) for word in [*arguments, *("README.md", "results/reference")[len(arguments):]]]
    write_bytes(readme, rewritten(readme.read_text(encoding="utf-8"), read(folder)).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
