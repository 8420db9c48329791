"""Runs the benchmarks and writes RESULTS.md.

    python -m benchmarks                 every one: 25 minutes on two free cores
    python -m benchmarks --quick         few repetitions, small sizes: what a change did, roughly
    python -m benchmarks steps sweeps    only these; their sections of RESULTS.md are written anew

Ratios are medians over interleaved rounds, so they hold on a busy machine where seconds do not.
"""

from __future__ import annotations

import argparse
import importlib
import re
import sys
import time
from pathlib import Path

from benchmarks.table import Table, machine

BENCHMARKS = ("steps", "rates", "sweeps", "own", "together", "shapes", "recorded")
RESULTS = Path(__file__).with_name("RESULTS.md")
HEAD = "# Benchmarks\n\nWritten by `make bench` (`python -m benchmarks`). How each is measured is in its file here.\n"


def main() -> int:
    """Measures what was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(BENCHMARKS)}; default all")
    parser.add_argument("--quick", action="store_true", help="few repetitions and small sizes")
    parser.add_argument("--output", type=Path, default=RESULTS, help="the Markdown file to write")
    asked = parser.parse_args()
    unknown = [name for name in asked.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"unknown benchmark {unknown[0]!r}; there are {', '.join(BENCHMARKS)}")
    for name in asked.names or BENCHMARKS:
        where, began = machine(), time.perf_counter()
        tables = importlib.import_module(f"benchmarks.{name}").measure(asked.quick)
        print("\n".join(table.markdown() for table in tables), flush=True)
        seconds = time.perf_counter() - began
        write(asked.output, tables, f"{where} {'Quick: few repetitions. ' if asked.quick else ''}Took {seconds:.0f} s.")
    return 0


def write(path: Path, tables: list[Table], where: str) -> None:
    """Puts tables in place of the sections with their titles, or at the end."""
    sections = re.split(r"(?m)^(?=## )", path.read_text()) if path.exists() else [HEAD]
    kept = {section.partition("\n")[0]: section.rstrip() + "\n" for section in sections[1:]}
    for table in tables:
        text = table.markdown()
        kept[text.partition("\n")[0]] = f"{text}\n<sub>{where}</sub>\n"
    path.write_text("\n".join([HEAD, *kept.values()]))


if __name__ == "__main__":
    sys.exit(main())
