"""Runs that train in the group of another. An engine knows the leader of a group alone: its task holds all of them.

A rider's result is known by its own files, as if another launcher trained it. Whatever becomes of the group, a rider
without a result goes back to the queue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from experiments.runner.plan import Planned, State

if TYPE_CHECKING:
    from experiments.experiment import Run


class Groups(Protocol):
    """Which runs may train together; see `experiments.training.replicas.grouping`.

    Attributes:
        target: `module:function` that trains a group.
    """

    @property
    def target(self) -> str:
        """`module:function` that trains a group."""
        ...

    def key(self, run: Run) -> str | None:
        """Equal for runs that may train together; None = this one trains alone."""
        ...

    def most(self, run: Run) -> int:
        """How many runs like this one a worker is given at once."""
        ...

    def job(self, jobs: Sequence[Any]) -> Any:
        """What `target` is called with; the leader's job comes first."""
        ...


class Riders:
    """Who rides along with whom, and who has to train alone."""

    def __init__(self, groups: Groups | None) -> None:
        self.groups = groups
        self.of: dict[str, list[Planned]] = {}
        self.alone: set[str] = set()
        self._keys: dict[str, str | None] = {}

    def gather(
        self, leader: Planned, waiting: deque[Planned], share: int, ready: Callable[[Planned], bool]
    ) -> list[Planned]:
        """Takes the riders of a run out of the queue.

        Args:
            share: runs that one worker may take, so that all have some. ready: whether a run can start now.
        """
        most = 1 if self.groups is None or share < 2 or self._key(leader) is None else self._most(leader)
        found: list[Planned] = []
        for planned in list(waiting) if min(most, share) > 1 else ():
            if len(found) + 1 >= min(most, share):
                break
            if self._fits(planned, [leader, *found]) and ready(planned):
                found.append(planned)
                waiting.remove(planned)
        if found:
            self.of[leader.id] = found
        return found

    def task(self, jobs: Sequence[Any], target: str) -> tuple[Any, str]:
        """Job and target of a leader's task."""
        if len(jobs) == 1:
            return jobs[0], target
        assert self.groups is not None
        return self.groups.job(jobs), self.groups.target

    def leave(self, leader_id: str) -> list[Planned]:
        """The riders of a group that is no more."""
        return self.of.pop(leader_id, [])

    def _most(self, planned: Planned) -> int:
        assert self.groups is not None
        assert planned.wanted.run is not None
        return self.groups.most(planned.wanted.run)

    def _fits(self, planned: Planned, group: Sequence[Planned]) -> bool:
        if planned.state in (State.RUNNING, State.REUSABLE) or self._key(planned) != self._key(group[0]):
            return False
        return all(planned.wanted.hash != other.wanted.hash for other in group)

    def _key(self, planned: Planned) -> str | None:
        if planned.id in self.alone or planned.wanted.run is None:
            return None
        if planned.id not in self._keys:
            assert self.groups is not None
            self._keys[planned.id] = self.groups.key(planned.wanted.run)
        return self._keys[planned.id]
