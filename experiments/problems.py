"""What is wrong with a declared experiment beyond names and types of single fields. Torch-free."""

from __future__ import annotations

import math
import re
import traceback
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.config import ConfigError
from experiments.tuning.space import holds
from transformer.registry import shown

if TYPE_CHECKING:
    from experiments.experiment import Experiment

OURS = [Path(__file__).resolve().parent.parent / folder for folder in ("transformer", "experiments")]
Problems = list[tuple[str, str]]
BASELINE = "baseline"
RESERVED = ("wandb", "report", "reference")  # folders of results/ that hold something else
MOST_RUNS = 100_000  # a plan that large is a slip, and would fill the memory before it could be told
LONGEST = 200  # characters of a variant's name


def described(error: BaseException) -> str:
    """`RuntimeError: boo (my_parts.py, line 6)`: an exception on one line, with the last place that a person wrote."""
    text = " ".join(str(error).split())
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_a_users(frame.filename)]
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {text}{place}" if text else f"{type(error).__name__}{place}"


def _is_a_users(file: str) -> bool:
    if file.startswith("<") or "site-packages" in file:
        return False
    return not any(folder in Path(file).resolve().parents for folder in (*OURS, Path(traceback.__file__).parent))


def shape_problems(experiment: Experiment) -> Problems:
    """Names, seeds and tables that cannot be meant, whatever the values in them."""
    found = [*_name_problems(experiment.name), *_seed_problems(experiment.seeds)]
    for where, table in _tables(experiment):
        found += [(path, "has no values to try") for path, values in table.items() if not values]
        found += [
            (where, "a seed is not varied, every variant is trained on each of them; write seeds: [3, 4]")
            for path in table if path == "seed"
        ]
    found += [("when", f"condition {c!r} must be written path=value") for c in experiment.when if "=" not in c]
    for name, changes in experiment.variants.items():
        found += _variant_problems(name, changes)
    return found


def purpose_problems(experiment: Experiment) -> Problems:
    """What can be expanded but cannot be meant: settings without effect, presets that do not fit."""
    found = []
    if experiment.baseline.seed != 0:
        text = f"{experiment.baseline.seed} changes nothing, the experiment's own seeds decide; write seeds: [3, 4]"
        found.append(("baseline.seed", text))
    variants = experiment.expand()
    asked = [where for where, table in _tables(experiment) if table and not where.startswith("when")]
    if len(variants) == 1 and asked and not experiment.variants:
        found.append((asked[0], "every value is the baseline's own, so that there is nothing to compare"))
    found += _renamed(experiment)
    found += _twins([(variant.name, variant.changes) for variant in variants])
    configs = [experiment.baseline.replace(v.changes) for v in variants if v.name not in experiment.variants]
    for condition in experiment.when:
        if not any(holds(config, condition) for config in configs):
            found.append(("when", f"'{condition}' is true of no variant, so its settings would never be tried"))
    return found + _preset_problems(experiment)


def _name_problems(name: str) -> Problems:
    if name in RESERVED:
        return [("name", f"'{name}' is kept for a folder of results/; take another")]
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        return []
    return [("", f"name {shown(name)} must be 1 to 64 of A-Z a-z 0-9 . _ - and start with one of A-Z a-z 0-9")]


def _seed_problems(seeds: int | list[int]) -> Problems:
    if isinstance(seeds, int):
        good = 1 <= seeds <= MOST_RUNS
    else:
        good = bool(seeds) and len(set(seeds)) == len(seeds) and min(seeds) >= 0 and max(seeds) < 2**63
    rule = f"must be a count from 1 to {MOST_RUNS:,}, or a list of different numbers from 0 to 2^63 - 1"
    return [] if good else [("", f"seeds={shown(seeds)} {rule}")]


def _variant_problems(name: str, changes: Mapping[str, Any]) -> Problems:
    where, found = f"variants.{name}", []
    if name == BASELINE:
        found.append((where, "'baseline' is the name of the unchanged configuration; take another"))
    if not name.strip() or not name.isprintable() or len(name) > LONGEST:
        found.append(("variants", f"name {shown(name)} must be 1 to {LONGEST} printable characters, not only spaces"))
    if not changes:
        found.append((where, "changes nothing, so that there is nothing to compare"))
    if "seed" in changes:
        found.append((where, "a seed is not varied, every variant is trained on each of them; write seeds: [3, 4]"))
    return found


def size_problems(experiment: Experiment) -> Problems:
    """Counted before anything is expanded: too many runs, conditions at their most."""
    products = [_size(table) for table in experiment.groups] + ([_size(experiment.grid)] if experiment.grid else [])
    each = sum(len(values) for values in experiment.vary.values()) + sum(products)
    n_seeds = experiment.seeds if isinstance(experiment.seeds, int) else len(experiment.seeds)
    runs = n_seeds * (1 + len(experiment.variants) + each)
    if runs <= MOST_RUNS and each * math.prod(_size(t) for t in experiment.when.values()) <= 10 * MOST_RUNS:
        return []
    return [("", f"{runs:,} runs and more are asked for; {MOST_RUNS:,} are the most: leave out values, or take groups")]


def _size(table: Mapping[str, list[Any]]) -> int:
    return math.prod(len(values) for values in table.values())


def _tables(experiment: Experiment) -> Iterator[tuple[str, Mapping[str, list[Any]]]]:
    yield "vary", experiment.vary
    yield "grid", experiment.grid
    yield from (("groups", table) for table in experiment.groups)
    yield from ((f"when.{condition}", table) for condition, table in experiment.when.items())


def _renamed(experiment: Experiment) -> Problems:
    """A variant under the name that another set of changes has by itself: it would silently replace it."""
    if not experiment.variants:
        return []
    by_itself = {v.name: v.changes for v in experiment.model_copy(update={"variants": {}}).expand()}
    return [
        (f"variants.{v.name}", "is what vary, grid or groups call other changes; take another name")
        for v in experiment.expand()
        if v.name in experiment.variants and by_itself.get(v.name, v.changes) != v.changes
    ]


def _twins(variants: Iterable[tuple[str, Mapping[str, Any]]]) -> Problems:
    """Variants that make the same changes: the same numbers twice."""
    seen: dict[str, str] = {}
    found = []
    for name, changes in variants:
        key = repr(sorted((path, _comparable(value)) for path, value in changes.items()))
        if key in seen:
            found.append(("", f"variants '{seen[key]}' and '{name}' make the same changes; leave one out"))
        seen.setdefault(key, name)
    return found


def _comparable(value: Any) -> str:
    return repr(sorted(value.items())) if isinstance(value, Mapping) else repr(value)


def _preset_problems(experiment: Experiment) -> Problems:
    bare = type(experiment)(**{**experiment.to_dict(), "presets": {}}) if experiment.presets else experiment
    found = []
    for name, changes in experiment.presets.items():
        try:
            bare.replace(changes)
        except ConfigError as error:
            found += [(f"presets.{name}", f"{path}: {text}" if path else text) for path, text in error.problems]
    return found
