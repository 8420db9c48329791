"""What a tuner leaves for readers: tuning.json, trials.csv, choice.json, and a file per winner that `run` takes."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments import records
from experiments.config import RunConfig, digest
from experiments.experiment import Experiment, slug
from experiments.tuning.labels import label
from experiments.tuning.study import Study
from experiments.tuning.trials import Told
from experiments.tuning.winners import Winner, write_choice
from transformer.spec import Spec

TUNING, TRIALS = "tuning.json", "trials.csv"
FEWEST = 10  # done trials below which nothing is said about which parameter matters
COSTS = ("parameters", "flops_per_token", "tokens", "steps", "train_seconds", "seconds")


def export(
    folder: Path, experiment: Experiment, studies: Sequence[Study], *, settings: Mapping[str, Any], final: bool,
    imports: Sequence[str] = (), importance: bool = True,
) -> dict[str, Winner]:
    """Writes everything under `folder` (the experiment's name ends in -tune); returns the winner of each variant.

    Args:
        settings: what the session was asked for, as plain data.
        final: whether every study has all its trials. imports: the user's files, for the winners' files.
        importance: also how much each parameter matters (takes tenths of a second).
    """
    folder.mkdir(parents=True, exist_ok=True)
    told = {study.question.variant: study.told() for study in studies}
    winners = {study.question.variant: winner(study) for study in studies}
    described = [_study(study, winners[study.question.variant], experiment, importance) for study in studies]
    content = {
        "schema": records.SCHEMA, "experiment": experiment.name, "settings": dict(settings), "final": final,
        "studies": described,
    }
    records.write_json(folder / TUNING, content)
    records.write_bytes(folder / TRIALS, _csv(studies, told).encode())
    write_choice(
        folder.parent, experiment, protocol=Spec("tune"), metric=studies[0].question.objectives[0].metric, final=final,
        winners=winners, tried={r["id"]: t.values for trials in told.values() for t in trials for r in t.runs},
        name=folder.name,
    )
    for study in studies:
        if winners[study.question.variant].values:
            write_winner(folder, experiment, study, winners[study.question.variant], imports)
    return winners


def winner(study: Study) -> Winner:
    """The best trial of a study, with a warning where it lies on the edge of what was searched."""
    best = study.best()
    if not best:
        return Winner({}, (), None, None, "no trial is done")
    first = best[0]
    found = [p for p in study.question.space.parts if p.path in first.values]
    edges = [(p, edge) for p in found if (edge := p.dimension.edge(first.values[p.path])) is not None]
    words = [
        f"the best {part.path}, {label(first.values[part.path])}, lies at the {edge} end of what was searched "
        f"({part.dimension.to_dict()}): {'smaller' if edge == 'lower' else 'larger'} values may be better"
        for part, edge in edges
    ]
    assert first.scores is not None
    runs = tuple(str(run["id"]) for run in first.runs)
    return Winner(dict(first.values), runs, first.scores[0], edges[0][1] if edges else None, "; ".join(words))


def set_line(changes: Mapping[str, Any]) -> str:
    """`--set train.lr=0.003 --set model.norm=rmsnorm`: what a person adds to a command line."""
    return " ".join(f"--set {shlex.quote(f'{path}={_typed(value)}')}" for path, value in changes.items())


def winner_file(variant: str) -> str:
    """Name of the file that holds a variant's winner."""
    return f"winner-{slug(variant)}.yaml"


def write_winner(
    folder: Path, experiment: Experiment, study: Study, found: Winner, imports: Sequence[str] = ()
) -> None:
    """An experiment file whose baseline is the winner: `run_all.py run FILE` trains it."""
    import yaml

    config = _config(study, found)
    tree = {
        **({"imports": list(imports)} if imports else {}),
        "name": _name(f"{experiment.name}-{study.question.variant}-winner"),
        "question": f"How good is {study.question.variant} of {experiment.name} with its tuned values?",
        "metric": experiment.metric, "goal": experiment.goal, "baseline": {**config.to_dict(), "seed": 0},
    }
    values = ", ".join(f"{path}={label(value)}" for path, value in found.values.items())
    head = f"# The best of {len(study.told())} trials for {study.question.variant}: {values}\n"
    plain = json.loads(json.dumps(tree))  # no tuples, no sharing: YAML without tags and anchors
    text = head + yaml.safe_dump(plain, sort_keys=False)
    records.write_bytes(folder / winner_file(study.question.variant), text.encode())


def _name(text: str) -> str:
    """The text as the name of an experiment: 64 plain characters, the same for the same text only."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", text)
    return plain if len(plain) <= 64 else f"{plain[:55]}-{digest(text)[:8]}"


def _config(study: Study, found: Winner) -> RunConfig:
    return study.question.run_of(found.values, study.question.seeds[0]).config


def _study(study: Study, found: Winner, experiment: Experiment, importance: bool) -> dict[str, Any]:
    question = study.question
    changes = next((dict(v.changes) for v in experiment.expand() if v.name == question.variant), {})
    return {
        "name": question.name, "variant": question.variant,
        "objectives": [{"metric": one.metric, "goal": one.goal} for one in question.objectives],
        "space": [
            {"path": p.path, "when": p.dimension.when, "range": p.dimension.to_dict(), "scale": _scale(p.dimension)}
            for p in question.space.parts
        ],
        "seeds": list(question.seeds), "trials": study.spent(), "importance": _importance(study) if importance else {},
        "best": [{"number": t.number, "scores": list(t.scores or ()), "values": dict(t.values)} for t in study.best()],
        "edge": found.edge, "warning": found.warning, "file": winner_file(question.variant) if found.values else None,
        "set": set_line({**changes, **found.values}) if found.values else "",
    }  # fmt: skip


def _scale(dimension: Any) -> str:
    """How a figure draws its axis: log, linear or choice."""
    if dimension.form == "choice":
        return "choice"
    return "log" if dimension.form == "log" or getattr(dimension, "log", False) else "linear"


def _importance(study: Study) -> dict[str, float]:
    """Share of the score's variation that each parameter explains (PED-ANOVA); empty with too few trials.

    What it compares with the rest are the best tenth of many trials, but at least the best eight (or two in five):
    the best two of twenty, as by default, name a parameter at random.
    """
    import optuna

    n = sum(trial.status == "done" for trial in study.told())
    if n < FEWEST:
        return {}
    evaluator = optuna.importance.PedAnovaImportanceEvaluator(target_quantile=max(0.1, min(0.4, 8 / n)))
    sign = 1.0 if study.question.objectives[0].goal == "min" else -1.0
    several = len(study.question.objectives) > 1
    target = (lambda trial: sign * trial.values[0]) if several else None
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="PedAnova")  # it warns that small values count as good
            found = optuna.importance.get_param_importances(study.optuna, evaluator=evaluator, target=target)
    except (ValueError, RuntimeError):  # no parameter that every trial has, or all scores equal
        return {}
    return {path: float(share) for path, share in found.items() if share == share}


def _csv(studies: Sequence[Study], told: Mapping[str, Sequence[Told]]) -> str:
    paths = list(dict.fromkeys(part.path for study in studies for part in study.question.space.parts))
    metrics = [one.metric for one in studies[0].question.objectives]
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(["study", "variant", "number", "status", *metrics, *paths, *(f"cost.{c}" for c in COSTS), "runs"])
    for study in studies:
        for trial in told[study.question.variant]:
            scores = trial.scores if trial.scores is not None else [""] * len(metrics)
            cells = [_cell(trial.values.get(path, "")) for path in paths]
            costs = [trial.cost.get(name, "") for name in COSTS]
            head = [study.question.name, study.question.variant, trial.number, trial.status]
            table.writerow([*head, *scores, *cells, *costs, " ".join(run["id"] for run in trial.runs)])
    return out.getvalue()


def _cell(value: Any) -> Any:
    return label(value) if isinstance(value, Mapping) else value


def _typed(value: Any) -> str:
    if isinstance(value, Mapping | list):
        return json.dumps(value)
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return repr(value) if isinstance(value, float) else str(value)
