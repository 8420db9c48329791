"""What the harness itself costs: per step beside a bare loop, and per run around its steps."""

from __future__ import annotations

import torch

from benchmarks import step
from benchmarks.pairs import spread
from benchmarks.table import Table


def measure(quick: bool) -> list[Table]:
    """The two numbers of step.py."""
    torch.set_num_threads(1)
    steps = step.step_ratios(30 if quick else 300)
    runs = step.run_overhead(100 if quick else 500, repeats=2 if quick else 3)
    says = (
        "2 x 64, 4 heads, 32 x 64 tokens, one thread, wandb offline. A step: ours (data, dropout stream, schedule, "
        "divergence watch, metrics row) over a bare loop's. A run in a warm worker: wall time over the time in its "
        f"{100 if quick else 500} training steps, with evaluation, files and checkpoints."
    )
    rows = [
        ["step / bare step", spread(steps), str(step.STEP_LIMIT)],
        ["run / its steps", spread(runs), str(step.RUN_LIMIT)],
    ]
    return [Table("The harness's own cost", says, ["what", "ratio", "limit"], rows)]
