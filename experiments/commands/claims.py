"""`claims`: decides the textbook's sentences, each by the rule on its card. Running it again goes on."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from experiments import claims, records
from experiments.claims.card import STANDARD, Claim
from experiments.claims.launching import trainer
from experiments.claims.measured import measure
from experiments.claims.record import record
from experiments.claims.sequence import BUDGET, Afford, Answer, Decide, Looked, anything, look_by_look
from experiments.claims.spending import Sitting, seconds_missing
from experiments.commands.choices import Launch
from experiments.config import ConfigError
from experiments.judge import Budget

MEASURED, VERDICT = "measured.json", "verdict.json"
Release = Callable[[Sequence[Any]], Sequence[Answer]]
Table = Callable[[Sequence[Any]], str]
Keep = Callable[[Sequence[str], Sequence[Any]], Path]
PRESETS = ("quick", STANDARD)
TURNS = "every claim has its first look before any has {} seeds"


def command(
    name: str | None, launch: Launch, preset: str, *, decide: Decide, release: Release, table: Table,
    budget: str | None = None, keep: Keep | None = None,
) -> int:
    """Decides one claim, or all of them, and prints verdicts; returns the exit code.

    Args:
        name: of a claim; None = every claim that ships.
        launch: how runs are trained. preset: `quick` or `standard`.
        decide, release, table: `verdicts`, `released` and `markdown` of analysis.verdicts.
        budget: a time; no look begins that would not end within it. None = no limit.
        keep: writes a summary of everything that was decided, given the names of all claims and their verdicts.

    Raises:
        ConfigError: no such claim or preset, or a budget that is not a time.
    """
    console = Console(stderr=launch.as_json, highlight=False, markup=False)
    cards = [claims.get(one).at(preset) for one in ([name] if name else claims.WHERE)]
    sitting = _sitting(budget, launch)

    def say(line: str) -> None:
        console.print(line, markup=False, soft_wrap=True)

    looked = decide_all(cards, launch, preset, sitting, decide, say)
    code = max((one.outcome.exit_code for one in looked.values() if one.outcome), default=0)
    found = release([answer for one in looked.values() for answer in one.answers])
    if launch.as_json:
        print(json.dumps([answer.to_dict() for answer in found], indent=1))
    if name is None:
        path = launch.results / f"claims-{preset}.md"
        records.write_bytes(path, table(found).encode())
        say(f"{_counted(found)}; table: {path}; everything about one: python run_all.py claims NAME --preset {preset}")
    if keep is not None and not any(map(_signalled, looked.values())):  # half a sitting replaces no whole summary
        say(f"summary: {keep([card.name for card in cards], found)}")
    return code


def _sitting(budget: str | None, launch: Launch) -> Sitting:
    from experiments.runner.devices import slots

    if budget is None:
        return Sitting()
    seconds = Budget.parse(budget).seconds
    if seconds is None:
        raise ConfigError([("--budget", f"'{budget}' must be a time here: 600s, 10m or 2h")])
    workers = len(slots(launch.device, launch.workers, launch.per_gpu))
    return Sitting(seconds, seconds_missing(launch.results, workers))


def decide_all(
    cards: Sequence[Claim], launch: Launch, preset: str, sitting: Sitting, decide: Decide, say: Callable[[str], None]
) -> dict[str, Looked]:
    """Decides every card, cheap ones first so that a budget reaches many; all have a first look before any a second."""
    alone = len(cards) == 1
    looked: dict[str, Looked] = {}
    cards = sorted(cards, key=_price)
    for card in cards:
        begin_claim(card, launch, preset, say)
        afford, why = (sitting.further(card), BUDGET) if alone else (sitting.first(card), TURNS)
        looked[card.name] = take_looks(card, launch, decide, say, afford=afford, why=why, brief=not alone)
        if _signalled(looked[card.name]):
            return looked
    for card in cards:
        if alone or not looked[card.name].open or len(card.looks) == 1:
            continue
        looked[card.name] = take_looks(card, launch, decide, say, afford=sitting.further(card), why=BUDGET, brief=True)
        if _signalled(looked[card.name]):
            break
    return looked


def _price(card: Claim) -> int:
    """Steps of the first look; none for what is measured exactly."""
    return card.size * card.looks[0] * card.baseline.train.steps if card.by_seeds else 0


def _signalled(looked: Looked) -> bool:
    return bool(looked.outcome and looked.outcome.signalled)


def begin_claim(card: Claim, launch: Launch, preset: str, say: Callable[[str], None]) -> None:
    """Records a card, and measures what its exact parts need."""
    for line in record(card, launch.results, again(card, launch.results, preset)):
        say(line)
    if card.check:
        found = measure(card.check)
        content = {"schema": records.SCHEMA, "hash": card.hash, **found}
        records.write_json(launch.results / card.name / MEASURED, content)
        if found["error"]:
            say(f"{card.name}: {found['error']}")


def take_looks(
    card: Claim, launch: Launch, decide: Decide, say: Callable[[str], None] = lambda line: None, *,
    afford: Afford = anything, why: str = BUDGET, brief: bool = False,
) -> Looked:
    """Trains what a recorded card needs, and writes results/<claim>/verdict.json.

    Args:
        say: is told what a person reads. afford, why: see `look_by_look`. brief: the verdict and its notes alone.
    """
    looked = look_by_look(
        card, launch.results, trainer(launch), decide, afford=afford, why=why,
        after=lambda seeds: _probe(card, launch, say),
    )
    for answer in looked.answers:
        say(_brief(answer) if brief else str(answer))
    _about_seeds(card, looked, say)
    write_verdict(launch.results / card.name / VERDICT, card, looked)
    return looked


def _brief(answer: Answer) -> str:
    head, *rest = str(answer).splitlines()
    return "\n".join([head, *(line for line in rest if line.startswith("  note: "))])


def _counted(found: Sequence[Answer]) -> str:
    labels = [answer.label for answer in found]
    return ", ".join(f"{labels.count(label)} {label}" for label in dict.fromkeys(labels))


def again(card: Claim, results: Path, preset: str) -> str:
    """The command that asks for this verdict again."""
    name = card.name.removesuffix(f"-{preset}")
    words = ["python run_all.py claims", name, *([] if preset == STANDARD else [f"--preset {preset}"])]
    return " ".join([*words, *([] if str(results) == "results" else [f"--results {results}"])])


def write_verdict(path: Path, card: Claim, looked: Looked) -> None:
    """verdict.json: every part's verdict, and what the seeds cost."""
    content = {
        "schema": records.SCHEMA, "claim": card.name, "statement": card.statement, "source": card.source,
        "hash": card.hash, "verdicts": [answer.to_dict() for answer in looked.answers], "seeds": looked.seeds,
        "runs": looked.runs, "runs_saved": looked.saved, "stopped": looked.stopped,
    }
    records.write_json(path, content)


def _probe(card: Claim, launch: Launch, say: Callable[[str], None]) -> None:
    if card.probe is None:
        return
    from experiments.claims.probes import probe_runs

    for line in probe_runs(card.probe, launch.results, card.name):
        say(line)


def _about_seeds(card: Claim, looked: Looked, say: Callable[[str], None]) -> None:
    if looked.stopped:
        say(f"  stopped early: {looked.stopped}")
    elif looked.saved:
        say(f"  {looked.saved} of the {looked.fixed} runs of n = {card.looks[-1]} were not needed")
