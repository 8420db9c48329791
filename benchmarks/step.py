"""What the suite costs beside a bare training loop of the same sizes, both in one process, step by step in turn.

    python benchmarks/step.py [--steps 300] [--run-steps 500] [--check]

Prints two numbers: the median over steps of (our step / bare step), where ours holds everything that the loop does on a
plain step (data, dropout stream, schedule, clipping, divergence watch, metrics row); and what a whole run adds around
its steps in a warm worker (start, evaluation, files, checkpoint, wandb offline). `--check` exits 1 above the limits.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from experiments.config import RunConfig, TrainConfig, digest
from experiments.experiment import Run
from experiments.training.execute import Job, execute
from experiments.training.session import Session, Watchers, prepare
from experiments.training.train import log_step, one_step

WIDTH, LAYERS, HEADS, LENGTH, BATCH = 64, 2, 4, 64, 32
STEP_LIMIT, RUN_LIMIT = 1.05, 1.10


class BareLayer(nn.Module):
    """A pre-norm layer as one would write it by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class BareModel(nn.Module):
    """A GPT of the same sizes: learned positions, pre-norm, GELU, tied head."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab_size, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.layers = nn.ModuleList(BareLayer() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        nn.init.normal_(self.tokens.weight, std=0.02)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.positions.weight
        for layer in self.layers:
            x = layer(x)
        return F.linear(self.norm(x), self.tokens.weight)


class BareLoop:
    """Random windows, forward, loss, backward, clip, fused AdamW. No schedule, no log, no evaluation."""

    def __init__(self, text: Tensor, vocab_size: int) -> None:
        self.text, self.model = text, BareModel(vocab_size)
        self.optimiser = torch.optim.AdamW(self.model.parameters(), lr=3e-3, betas=(0.9, 0.95), fused=True)
        self.offsets = torch.arange(LENGTH + 1)

    def step(self) -> None:
        starts = torch.randint(len(self.text) - LENGTH - 1, (BATCH, 1))
        window = self.text[starts + self.offsets]
        loss = F.cross_entropy(self.model(window[:, :-1]).flatten(0, 1), window[:, 1:].flatten())
        self.optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimiser.step()


def our_run(steps: int) -> Run:
    """The default model and task, which have the sizes above."""
    config = RunConfig(train=TrainConfig(steps=steps, batch_size=BATCH))
    identity = config.identity()
    return Run("benchmark", "baseline", {}, config, identity, digest(identity))


def step_ratios(steps: int, warmup: int = 20) -> list[float]:
    """(our step / bare step) for `steps` pairs; who goes first alternates."""
    with tempfile.TemporaryDirectory() as folder:
        run = our_run(steps + warmup)
        ours = prepare(run.config, Path(folder), run.hash, "cpu", Watchers())
        text = torch.cat([ours.task.train_batch(0, i, 256).inputs.flatten() for i in range(8)])
        bare = BareLoop(text, ours.task.vocab_size)
        return [_pair(ours, bare, i) for i in range(steps + warmup)][warmup:]


def _pair(ours: Session, bare: BareLoop, i: int) -> float:
    def our_step() -> None:
        log_step(ours, one_step(ours), False)

    seconds = {}
    for step in (our_step, bare.step) if i % 2 else (bare.step, our_step):
        began = time.perf_counter()
        step()
        seconds[step] = time.perf_counter() - began
    return seconds[our_step] / seconds[bare.step]


def run_overhead(steps: int, repeats: int = 3) -> list[float]:
    """(wall time of a whole run / time in its training steps) in a warm worker, wandb offline."""
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        execute(Job.of(our_run(5), Path(folder), wandb="offline"))  # warms up: imports, corpus, wandb's process
        for i in range(repeats):
            job = Job.of(our_run(steps), Path(folder) / str(i), wandb="offline", checkpoint_seconds=5.0)
            began = time.perf_counter()
            result = execute(job)
            ratios.append((time.perf_counter() - began) / result["cost"]["train_seconds"])
    return ratios


def main() -> int:
    """Measures, prints, and with --check judges."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=300, help="pairs of steps to time")
    parser.add_argument("--run-steps", type=int, default=500, help="length of the whole run")
    parser.add_argument("--check", action="store_true", help="exit 1 when a limit is exceeded")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    ratios = step_ratios(asked.steps)
    low, _, high = statistics.quantiles(ratios, n=4)
    step, runs = statistics.median(ratios), run_overhead(asked.run_steps)
    sizes = f"d_model {WIDTH}, {LAYERS} layers, {HEADS} heads, context {LENGTH}, batch {BATCH}"
    print(f"{sizes}; torch {torch.__version__}, 1 thread")
    print(f"step, ours / bare   {step:.3f}   middle half {low:.3f} to {high:.3f} of {len(ratios)}; limit {STEP_LIMIT}")
    each = ", ".join(f"{ratio:.3f}" for ratio in runs)
    print(f"run / its steps     {statistics.median(runs):.3f}   {asked.run_steps} steps: {each}; limit {RUN_LIMIT}")
    return int(asked.check and (step > STEP_LIMIT or statistics.median(runs) > RUN_LIMIT))


if __name__ == "__main__":
    sys.exit(main())
