"""Step time and peak memory beside torch.nn.TransformerEncoder, x-transformers and Hugging Face, at four sizes."""

from __future__ import annotations

import torch

from benchmarks.libraries import Size, Step, installed
from benchmarks.pairs import interleaved, median_of, ratios, spread
from benchmarks.table import Table

SIZES = {
    Size(64, 2, 4, 64, 32): (60, 5), Size(128, 4, 4, 128, 16): (20, 3),
    Size(256, 6, 8, 256, 4): (10, 2), Size(768, 12, 12, 128, 1): (10, 1),
}  # size -> rounds, and rounds with --quick
OURS = "this suite"


def measure(quick: bool) -> list[Table]:
    """One table for time, one for memory."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_num_threads(1)
    here, missing = installed()
    times, memory = [], []
    for size, rounds in SIZES.items():
        steps = {name: Step(name, size, device) for name in here}
        seconds = interleaved(steps, rounds=rounds[quick], warmup=1 if quick else 2)
        own = f"{median_of(seconds, OURS) * 1e3:.1f}"
        times.append([str(size), own, *(spread(ratios(seconds, OURS, name)) for name in here[1:])])
        peaks = {name: step.peak_bytes() for name, step in steps.items()}
        memory.append([str(size), f"{peaks[OURS] / 2**20:.1f}", *(f"{peaks[n] / peaks[OURS]:.2f}" for n in here[1:])])
    notes = [f"not measured, since not installed: {', '.join(missing)}"] if missing else []
    where = "one CPU thread, fp32" if device == "cpu" else "CUDA, bf16 by autocast"
    ran = f"{where}; forward, loss, backward, clipping and fused AdamW; vocabulary 256."
    return [
        Table(
            "Step time", f"Median of (library / this suite) over interleaved steps, middle half in brackets: above 1 "
            f"is slower than this suite. {ran}", ["size", "this suite, ms", *here[1:]], times, notes,
        ),
        Table(
            "Peak memory", "The same models: weights, gradients, optimiser state and what the forward pass keeps for "
            "the backward pass; (library / this suite).", ["size", "this suite, MiB", *here[1:]], memory, notes,
        ),
    ]
