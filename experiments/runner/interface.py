"""The interface of an engine: local processes, Ray."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from experiments.runner.attempt import Task
from experiments.runner.events import Event
from experiments.runner.plan import Planned


class Engine(Protocol):
    """Something that trains runs: processes on this machine, or a cluster."""

    name: str

    @property
    def free(self) -> int:
        """How many more runs can be given out now."""
        ...

    def submit(self, task: Task) -> None:
        """Starts a run; call only while `free` is positive."""
        ...

    def wait(self, seconds: float) -> list[Event]:
        """What has happened, at most `seconds` from now. Every submitted run ends with exactly one end event:
        those of `Event`, or `killed` (its worker was killed), or `broken` (no worker can start)."""
        ...

    def stop(self) -> None:
        """Asks every run to write its checkpoint and stop."""
        ...

    def cancel(self, run_id: str) -> None:
        """Asks one run to write its checkpoint and stop; it then ends as `pruned`. Nothing if it is not running."""
        ...

    def close(self, *, now: bool = False) -> None:
        """Ends every worker; with `now`, in the middle of their runs."""
        ...


Feed = Callable[[], Sequence[Planned] | None]  # what to train next, empty while that is not known; None = no more
