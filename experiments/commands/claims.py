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
from experiments.claims.sequence import Answer, Decide, Looked, look_by_look
from experiments.commands.run import Launch

MEASURED, VERDICT = "measured.json", "verdict.json"
Release = Callable[[Sequence[Any]], Sequence[Answer]]
Table = Callable[[Sequence[Any]], str]
PRESETS = ("quick", STANDARD)


def command(
    name: str | None, launch: Launch, preset: str, *, decide: Decide, release: Release, table: Table
) -> int:
    """Decides one claim, or all of them, and prints verdicts; returns the exit code.

    Args:
        name: of a claim; None = every claim that ships.
        launch: how runs are trained. preset: `quick` or `standard`.
        decide, release, table: `verdicts`, `released` and `markdown` of analysis.verdicts.

    Raises:
        ConfigError: no such claim or preset.
    """
    console = Console(stderr=launch.as_json, highlight=False, markup=False)
    cards = [claims.get(one).at(preset) for one in ([name] if name else claims.WHERE)]
    answers: list[Answer] = []
    code = 0

    def say(line: str) -> None:
        console.print(line, markup=False, soft_wrap=True)

    for card in sorted(cards, key=lambda card: card.by_seeds):  # certain ones first
        looked = decide_claim(card, launch, preset, decide, say, brief=name is None)
        answers += looked.answers
        code = max(code, looked.outcome.exit_code if looked.outcome else 0)
        if code == 130:
            break
    found = release(answers)
    if launch.as_json:
        print(json.dumps([answer.to_dict() for answer in found], indent=1))
    if name is None:
        path = launch.results / f"claims-{preset}.md"
        records.write_bytes(path, table(found).encode())
        say(f"{_counted(found)}; table: {path}; everything about one: python run_all.py claims NAME --preset {preset}")
    return code


def decide_claim(
    card: Claim, launch: Launch, preset: str, decide: Decide, say: Callable[[str], None] = lambda line: None, *,
    brief: bool = False,
) -> Looked:
    """Records a card, measures and trains what it needs, and writes results/<claim>/verdict.json.

    Args:
        say: is told what a person reads. brief: the verdict and its notes alone.
    """
    for line in record(card, launch.results, again(card, launch.results, preset)):
        say(line)
    folder = launch.results / card.name
    if card.check:
        found = measure(card.check)
        records.write_json(folder / MEASURED, {"schema": records.SCHEMA, "hash": card.hash, **found})
        if found["error"]:
            say(f"{card.name}: {found['error']}")
    looked = look_by_look(card, launch.results, trainer(launch), decide, after=lambda seeds: _probe(card, launch, say))
    for answer in looked.answers:
        say(_brief(answer) if brief else str(answer))
    _about_seeds(card, looked, say)
    write_verdict(folder / VERDICT, card, looked)
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
