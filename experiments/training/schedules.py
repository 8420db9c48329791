"""Learning-rate schedules and decays of teacher forcing. Torch-free; every step is counted from 1.

`lr(s)` is the rate that optimiser step s uses, s = 1 .. T: the first step already has s = 1, so it is never wasted
on a rate of zero, and the peak falls on s = w (w warm-up steps; w = 0 starts at the peak).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from transformer.registry import Registry


@dataclass(frozen=True)
class Horizon:
    """What a schedule knows of its run.

    Attributes:
        peak: largest learning rate, `train.lr`.
        warmup: w, steps of linear warm-up.
        steps: T, steps of the whole run.
        d_model: width of the model, for the rule that depends on it.
    """

    peak: float
    warmup: int
    steps: int
    d_model: int = 64


class Schedule:
    """lr(s) = peak * s / w during warm-up, peak * decay(s) after it."""

    def __init__(self, horizon: Horizon) -> None:
        self.horizon = horizon

    def lr(self, step: int) -> float:
        """The learning rate of optimiser step `step`, counted from 1."""
        h = self.horizon
        return h.peak * (step / h.warmup if step < h.warmup else self.decay(step))

    def decay(self, step: int) -> float:
        """The share of the peak after warm-up; 1 at step w."""
        return 1.0

    def progress(self, step: int) -> float:
        """(s - w) / (T - w), held at 1 after T so that a rate never rises again."""
        h = self.horizon
        return min(1.0, (step - h.warmup) / max(1, h.steps - h.warmup))


class Sampling:
    """How often the decoder reads the gold token; 1 = always teacher forcing. `i` counts finished steps, from 0."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def teacher_forcing(self, i: int) -> float:
        """The probability that an input token is the gold one."""
        return 1.0


SCHEDULES: Registry[Schedule] = Registry("schedule", contract=Schedule)
SAMPLING: Registry[Sampling] = Registry("scheduled_sampling", contract=Sampling)


@SCHEDULES.register("constant")
class Constant(Schedule):
    """decay = 1."""


@SCHEDULES.register("cosine", paper="arXiv:1608.03983")
class Cosine(Schedule):
    """decay = final + (1 - final) (1 + cos(pi * progress)) / 2. `final` is a share of the peak, in [0, 1]."""

    def __init__(self, horizon: Horizon, *, final: float = 0.1) -> None:
        super().__init__(horizon)
        self.final = _share("schedule 'cosine': final", final)

    def decay(self, step: int) -> float:
        return self.final + (1 - self.final) * 0.5 * (1 + math.cos(math.pi * self.progress(step)))


@SCHEDULES.register("linear")
class Linear(Schedule):
    """decay = 1 - (1 - final) * progress. With final = 0 the last step has a rate of zero, as is usual."""

    def __init__(self, horizon: Horizon, *, final: float = 0.0) -> None:
        super().__init__(horizon)
        self.final = _share("schedule 'linear': final", final)

    def decay(self, step: int) -> float:
        return 1 - (1 - self.final) * self.progress(step)


@SCHEDULES.register("inverse_sqrt")
class InverseSqrt(Schedule):
    """decay = sqrt(timescale / (s + timescale - w)); timescale = w unless given, 10000 where there is no warm-up."""

    def __init__(self, horizon: Horizon, *, timescale: int | None = None) -> None:
        super().__init__(horizon)
        self.timescale = timescale if timescale is not None else horizon.warmup or 10_000
        if self.timescale < 1:
            raise ValueError(f"schedule 'inverse_sqrt': timescale={timescale} must be at least 1 step")

    def decay(self, step: int) -> float:
        return math.sqrt(self.timescale / (step + self.timescale - self.horizon.warmup))


@SCHEDULES.register("noam", paper="arXiv:1706.03762")
class Noam(Schedule):
    """lr = factor * d_model^-0.5 * min(s^-0.5, s * w^-1.5), the rule of "Attention is all you need" (section 5.3).

    With `factor` the rate follows from the model's width and the warm-up alone and `train.lr` has no say. Without it
    the same curve is scaled so that its peak is `train.lr`, which is what a comparison at tuned rates needs.
    """

    def __init__(self, horizon: Horizon, *, factor: float | None = None) -> None:
        super().__init__(horizon)
        if factor is not None and not factor > 0:
            raise ValueError(f"schedule 'noam': factor={factor} must be above 0; leave it out to peak at train.lr")
        self.warmup = max(1, horizon.warmup)
        self.scale = horizon.peak * math.sqrt(self.warmup) if factor is None else factor * horizon.d_model**-0.5

    def lr(self, step: int) -> float:
        return self.scale * min(1 / math.sqrt(step), step / math.pow(self.warmup, 1.5))


@SAMPLING.register("linear", paper="arXiv:1506.03099")
class LinearSampling(Sampling):
    """p = start + (end - start) * i / T."""

    def __init__(self, steps: int, *, start: float = 1.0, end: float = 0.0) -> None:
        super().__init__(steps)
        self.start = _share("scheduled_sampling 'linear': start", start)
        self.end = _share("scheduled_sampling 'linear': end", end)

    def teacher_forcing(self, i: int) -> float:
        return self.start + (self.end - self.start) * min(1.0, i / self.steps)


@SAMPLING.register("exponential", paper="arXiv:1506.03099")
class ExponentialSampling(Sampling):
    """p = k^i, 0 < k <= 1."""

    def __init__(self, steps: int, *, k: float = 0.995) -> None:
        super().__init__(steps)
        if not 0 < k <= 1:
            raise ValueError(f"scheduled_sampling 'exponential': k={k} must be in (0, 1]")
        self.k = k

    def teacher_forcing(self, i: int) -> float:
        return float(self.k**i)


@SAMPLING.register("inverse_sigmoid", paper="arXiv:1506.03099")
class InverseSigmoidSampling(Sampling):
    """p = k / (k + exp(i / k)), k >= 1."""

    def __init__(self, steps: int, *, k: float = 100.0) -> None:
        super().__init__(steps)
        if not k >= 1:
            raise ValueError(f"scheduled_sampling 'inverse_sigmoid': k={k} must be at least 1")
        self.k = k

    def teacher_forcing(self, i: int) -> float:
        return self.k / (self.k + math.exp(min(i / self.k, 700.0)))  # exp overflows past 709


def _share(what: str, value: float) -> float:
    if not 0 <= value <= 1:
        raise ValueError(f"{what}={value} must be in [0, 1]")
    return value
