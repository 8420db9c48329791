"""What a launch tells whoever watches it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

RESULTS = ("done", "diverged")
FAILURES = ("failed", "crashed", "timed_out", "out_of_memory")


@dataclass(frozen=True)
class Event:
    """Something that happened to one run.

    Attributes:
        kind: started, progress; then exactly one end: done, diverged, reused, failed, crashed, timed_out,
            out_of_memory, interrupted, pruned (stopped by a tuner), elsewhere (another launcher trains it),
            storage (it could not be written);
            or killed (its worker was killed from outside), which is followed by requeued or by crashed.
        run_id, variant, seed: which run.
        slot: which worker, counted from 0.
        step, steps, loss: how far it is; loss in nats per token.
        tokens_per_second, validation_loss: where they are known.
        seconds: duration of the attempt.
        error: one line saying why it ended without a result.
        log: path of its log.
        repeat: the command that repeats just this run.
        metrics: the result's scores, for runs that have one.
    """

    kind: str
    run_id: str
    variant: str = ""
    seed: int = 0
    slot: int = 0
    step: int = 0
    steps: int = 0
    loss: float | None = None
    validation_loss: float | None = None
    tokens_per_second: float = 0.0
    seconds: float = 0.0
    error: str = ""
    log: str = ""
    repeat: str = ""
    metrics: dict[str, Any] = field(default_factory=dict)

    @property
    def is_failure(self) -> bool:
        """Whether the run ended without a result and is not tried again in this launch."""
        return self.kind in FAILURES


@dataclass(frozen=True)
class Outcome:
    """How a launch ended.

    Attributes:
        done, diverged, reused, failed: run ids that ended in this launch; diverged runs are results.
        interrupted: stopped on request, with a checkpoint where there was time for one.
        elsewhere: ended by another launcher while this one waited.
        not_started: wanted, but the launch stopped before their turn.
        left: failed or damaged earlier, and not asked to be tried again.
        problem: one sentence when the launch had to stop (disk full, read-only folder, too many failures), else "".
        signalled: whether somebody asked it to stop.
    """

    done: tuple[str, ...] = ()
    diverged: tuple[str, ...] = ()
    reused: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    interrupted: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()
    not_started: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    problem: str = ""
    signalled: bool = False

    @property
    def exit_code(self) -> int:
        """0 = every wanted run has a result, 1 = some have none, 130 = stopped by a person."""
        if self.signalled:
            return 130
        return 1 if self.problem or self.failed or self.left or self.interrupted or self.not_started else 0
