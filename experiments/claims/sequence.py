"""Seeds by looks: train the first look, decide, and add seeds only while something that seeds can settle is open."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from experiments.claims.card import Claim
from experiments.experiment import Experiment
from experiments.runner.events import Outcome


class Answer(Protocol):
    """A verdict, as far as adding seeds needs to know it."""

    @property
    def label(self) -> str: ...

    @property
    def primary(self) -> bool: ...

    @property
    def by_seeds(self) -> bool: ...

    @property
    def settled(self) -> bool: ...

    def to_dict(self) -> dict[str, Any]: ...


Train = Callable[[Experiment], Outcome]  # makes every run of the experiment have a result, or says why not
Decide = Callable[[Path, str], Sequence[Answer]]  # (results, claim) -> verdicts, from the files alone
Afford = Callable[[int, int], bool]  # (runs that are there, runs that a look needs in all) -> go on?

BUDGET = "the budget does not reach {} seeds"


def anything(have: int, need: int) -> bool:
    """No budget."""
    return True


@dataclass(frozen=True)
class Looked:
    """How a claim was decided.

    Attributes:
        answers: verdicts of the last look. seeds: that were trained; runs: cells times seeds.
        fixed: runs that the largest look would have taken. stopped: why it ended before everything was settled, or "".
        outcome: of the last launch; None = nothing was launched.
    """

    answers: tuple[Any, ...]
    seeds: int
    runs: int
    fixed: int
    stopped: str = ""
    outcome: Outcome | None = None

    @property
    def open(self) -> bool:
        """Whether seeds were left out that may yet settle something."""
        return bool(self.stopped) and self.runs < self.fixed and not (self.outcome and self.outcome.exit_code)

    @property
    def saved(self) -> int:
        """Runs that were not needed."""
        return self.fixed - self.runs if not self.stopped else 0


def look_by_look(
    claim: Claim, results: Path, train: Train, decide: Decide, *, afford: Afford = anything,
    after: Callable[[int], None] = lambda seeds: None, why: str = BUDGET,
) -> Looked:
    """Trains look after look until every primary part is settled, the looks end, or the budget does.

    Args:
        claim: recorded already. afford: asked before each look. after: called when a look's runs have ended.
        why: what is said of a look that `afford` refused.
    """
    cells = claim.size
    done, answers, outcome, stopped = 0, tuple(decide(results, claim.name)) if not claim.by_seeds else (), None, ""
    for n in claim.looks if claim.by_seeds else ():
        if not afford(cells * done, cells * n):
            stopped = why.format(n)
            break
        outcome = train(claim.experiment(n))
        after(n)
        done, answers = n, tuple(decide(results, claim.name))
        if outcome.exit_code:
            stopped = outcome.problem or ("interrupted" if outcome.signalled else "some runs have no result")
            break
        if settled(answers):
            break
    return Looked(answers, done, cells * done, cells * claim.looks[-1] if claim.by_seeds else 0, stopped, outcome)


def settled(answers: Sequence[Answer]) -> bool:
    """Whether no further seed can change anything that counts."""
    return all(a.settled for a in answers if a.primary and a.by_seeds)
