"""What a whole sitting may cost: which looks still fit into the time that a person gave."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from experiments import records
from experiments.claims.card import Claim
from experiments.claims.sequence import Afford

Expect = Callable[[Claim, int], float]  # (claim, seeds) -> seconds that its missing runs will take, all workers at work


@dataclass
class Sitting:
    """A clock with a limit. Every claim has its first look before any has its second.

    Attributes:
        seconds: that may be spent; None = no limit. expect: how long a look will take.
    """

    seconds: float | None = None
    expect: Expect = lambda claim, seeds: 0.0
    clock: Callable[[], float] = time.monotonic
    began: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.clock()

    @property
    def left(self) -> float:
        """Seconds; infinite without a limit."""
        return float("inf") if self.seconds is None else self.seconds - (self.clock() - self.began)

    def fits(self, claim: Claim, seeds: int) -> bool:
        """Whether the runs of so many seeds would end in time; those that are there already always do."""
        return self.seconds is None or self.expect(claim, seeds) <= max(self.left, 0.0)

    def first(self, claim: Claim) -> Afford:
        """Lets the first look begin, and no other."""
        return lambda have, need: have == 0 and self.fits(claim, claim.looks[0])

    def further(self, claim: Claim) -> Afford:
        """Lets every look begin that would end in time."""
        cells = claim.size
        return lambda have, need: self.fits(claim, need // cells)


def seconds_missing(results: Path, workers: int) -> Expect:
    """Estimates from the runs that have no result yet, by finished ones of the same claim or a few timed steps."""

    def expect(claim: Claim, seeds: int) -> float:
        from experiments.estimate import seconds_of

        missing = [
            run for run in claim.experiment(seeds).runs()
            if not (records.run_directory(results, claim.name, run.id) / records.RESULT).exists()
        ]
        return sum(seconds_of(missing, results)) / workers

    return expect
