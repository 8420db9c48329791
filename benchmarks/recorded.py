"""How time and memory grow with recorded runs, 10 to 10,000, through plan, status, statistics and report."""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from benchmarks.table import Ran, Table, in_process
from experiments import records
from experiments.experiment import Experiment, Run
from experiments.runner.store import description
from experiments.seeds import numpy_stream

SHAPES = {10: (2, 5), 100: (10, 10), 1000: (50, 20), 10_000: (200, 50)}  # runs -> variants, seeds
ROWS = 20  # of metrics.jsonl
STAGES = ("plan", "status", "statistics and tables", "full report")


def measure(quick: bool) -> list[Table]:
    """Every stage in a process of its own, start-up included."""
    rows = []
    for count, (variants, seeds) in list(SHAPES.items())[: 3 if quick else 4]:
        with tempfile.TemporaryDirectory() as folder:
            file, results = fabricate(Path(folder), variants, seeds)
            found = [in_process(*words, results=results) for words in _commands(file)]
        rows.append([f"{count} ({variants} x {seeds})", *map(_cell, found)])
    notes = ["10,000 runs are left out of a quick run"] if quick else []
    says = (
        f"Fabricated records (variants x seeds, {ROWS} rows of metrics each), one process a stage, start-up included: "
        "wall (processor) time and peak resident memory. Limits at 10,000 runs: status 3 s, statistics and tables "
        "20 s, report 300 s, memory 2048 MiB."
    )
    return [Table("Growth with recorded runs", says, ["runs", *STAGES], rows, notes)]


def _cell(ran: Ran) -> str:
    return f"{ran.seconds:.1f} s ({ran.processor:.1f} s), {ran.peak / 2**20:.0f} MiB"


def fabricate(folder: Path, variants: int, seeds: int) -> tuple[Path, Path]:
    """An experiment file and a results folder in which all of its runs are done."""
    rates = [1e-3 * 1.01**i for i in range(variants - 1)]
    content = {
        "name": "many", "question": "How does the suite grow with runs?", "seeds": seeds,
        "baseline": {"train": {"lr": 2e-2}}, "vary": {"train.lr": rates},
    }
    file, results = folder / "many.yaml", folder / "results"
    file.write_text(json.dumps(content))  # JSON is YAML
    experiment = Experiment(**content)
    runs = experiment.runs()
    with _unsynced():
        for run in runs:
            _record(run, results)
        records.write_json(
            results / "many" / records.EXPERIMENT, description(experiment, runs, source=str(file))
        )
    return file, results


def _record(run: Run, results: Path) -> None:
    folder = records.run_directory(results, run.experiment, run.id)
    folder.mkdir(parents=True)
    names = {
        "schema": records.SCHEMA, "run_id": run.id, "experiment": run.experiment, "variant": run.variant,
        "seed": run.config.seed, "hash": run.hash,
    }
    draw = numpy_stream("benchmark", run.id)
    last = float(2.0 + 0.02 * draw.standard_normal())
    losses = [last + math.exp(-0.3 * row) for row in range(ROWS)]
    lines = [{"step": 25 * (row + 1), "seconds": 0.1 * row, "train/loss": loss, "validation/loss": loss}
             for row, loss in enumerate(losses)]
    (folder / records.METRICS).write_text("".join(json.dumps(line) + "\n" for line in lines))
    records.write_json(folder / records.CONFIG, {
        **names, "changes": dict(run.changes), "config": run.config.to_dict(), "identity": dict(run.identity),
    })
    records.write_json(folder / records.RESULT, {
        **names, "status": "done", "metrics": {
            "validation/loss": losses[-1], "test/loss": last, "test/accuracy": 0.4, "test/perplexity": math.exp(last),
        },
        "lengths": {}, "cost": {
            "parameters": 101_000, "parameters_non_embedding": 99_000, "flops_per_token": 2e5, "tokens": 10**6,
            "steps": 500, "seconds": 10.0, "train_seconds": 9.0, "peak_memory_bytes": 2**24,
            "peak_memory_measure": "counted",
        },
        "diverged": None, "stopped_early": False, "best": {"step": 500, "validation/loss": losses[-1]},
        "loss_floor": None, "clipped_share": 0.1, "environment": {"device": "cpu", "torch": "2"},
        "started": "2026-01-01T00:00:00+00:00", "finished": "2026-01-01T00:00:10+00:00",
        "metrics_sha256": records.file_digest(folder / records.METRICS),
    })


@contextmanager
def _unsynced() -> Iterator[None]:
    """Fabricated records need not survive a power cut: 20,000 waits for the disk would be most of the benchmark."""
    with mock.patch.object(os, "fsync", return_value=None):
        yield


def _commands(file: Path) -> list[tuple[str, ...]]:
    return [
        ("run_all.py", "plan", str(file)), ("run_all.py", "status", "many"), ("-m", "benchmarks.recorded"),
        ("run_all.py", "report", "many"),
    ]


def compare_stored(results: Path) -> None:
    """Statistics and tables of the fabricated experiment, without a report."""
    from analysis.compare import compare
    from analysis.contents import cost_table, score_table
    from analysis.load import load

    found = compare(load(results, "many"))
    assert score_table(found).rows
    assert cost_table(found).rows


if __name__ == "__main__":
    compare_stored(Path(sys.argv[-1]))
