"""How the runs were made, in words: budget, learning rates and what was tuned, what was held equal, machines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis.compare import Comparison
from analysis.load import Loaded
from analysis.words import TERMS, TOKENS, count, listed, metric_name, seconds, setting

LR = "train.lr"


def budget(train: Mapping[str, Any], runs: pd.DataFrame) -> str:
    """Steps, tokens and computing time of the compared runs."""
    done = runs[runs["status"] == "done"]
    if not len(done):
        return f"{train['steps']} steps planned" if "steps" in train else ""
    words = [f"{_range(done['steps'])} steps", f"{_range(done['tokens'])} tokens each"]
    if "batch_size" in train:
        words.insert(1, f"{train['batch_size']} sequences per step")
    if done["stopped_early"].any():
        words.append(f"{int(done['stopped_early'].sum())} runs stopped early on validation")
    return ", ".join([*words, f"{seconds(float(done['seconds'].sum()))} of computing in all"])


def learning_rate(loaded: Loaded, train: Mapping[str, Any]) -> str:
    """How every variant got its learning rate, and which."""
    schedule = f", {setting(train['schedule'])} schedule" if train.get("schedule") else ""
    protocol = loaded.meta.get("protocol") or {"name": "fixed"}
    if loaded.choice is not None:
        return _tuned(loaded) + schedule
    if protocol.get("name") != "fixed":
        return f"tuned for every variant: {setting(protocol)}{schedule}"
    declared = {v["name"]: v["changes"][LR] for v in loaded.meta["variants"] if LR in (v.get("changes") or {})}
    if declared:
        each = listed([f"{name} {setting(rate)}" for name, rate in declared.items()], most=20)
        return f"set per variant: {each}{schedule}"
    return f"fixed at {setting(train['lr'])} for every variant, not tuned{schedule}" if "lr" in train else ""


def scope(loaded: Loaded) -> str:
    """What the answer holds for, in plain words: task, lengths, size, steps and learning rate."""
    config = loaded.meta.get("baseline_config") or {}
    task, model, train = (config.get(name) or {} for name in ("task", "model", "train"))
    done = loaded.compared[loaded.compared["status"] == "done"]
    trained, tested = loaded.lengths.get(""), sorted({n for name, n in loaded.lengths.items() if name})
    token = f" (a token is {TOKENS[task['name']]})" if task.get("name") in TOKENS else ""
    first = done.iloc[0] if len(done) else None
    size = [f"{model[key]} layers" if key == "n_layers" else f"width {model[key]}"
            for key in ("n_layers", "d_model") if key in model]  # fmt: skip
    size += [f"about {count(float(done['parameters'].median()))} parameters"] if first is not None else []
    rate = learning_rate(loaded, train)
    words = [
        f"task {setting(task)}{token}" if task else "", f"trained on up to {trained} tokens" if trained else "",
        f"tested at {listed([str(n) for n in tested])} tokens" if tested else "", ", ".join(size),
        f"{_range(done['steps'])} training steps" if len(done) else "", f"learning rate {rate}" if rate else "",
    ]  # fmt: skip
    return "; ".join(filter(None, words))


def validation_note(comparison: Comparison, drawn: str) -> str:
    """Where the curves cannot show the metric itself: what they show instead."""
    if drawn == comparison.metric.replace("test/", "validation/", 1):
        return ""
    several = comparison.metric.count("/") > 1
    seen = "on new examples of the trained lengths, mixed" if several else "on held-out examples"
    return f"Drawn is {metric_name(drawn)}, {seen}; the answer is about {metric_name(comparison.metric)}."


def terms(loaded: Loaded) -> list[tuple[str, str]]:
    """The names of parts that this experiment uses, each in a few plain words."""
    values = [(loaded.meta.get("baseline_config") or {}).get("model") or {}, *map(loaded.changes, loaded.variants)]
    used = {v["name"] for group in values for v in group.values() if isinstance(v, Mapping) and "name" in v}
    return [(name, text) for name, text in TERMS.items() if name in used]


def held_equal(meta: Mapping[str, Any]) -> str:
    """The quantity that every variant got the same of."""
    matched = f"; {meta['match']} matched to the baseline's" if meta.get("match") else ""
    return f"{meta['held_equal']}{matched}" if meta.get("held_equal") else ""


def tuning_notes(loaded: Loaded) -> list[str]:
    """What a reader must know of a choice: not made, not final, at an edge."""
    choice = loaded.choice
    if choice is None:
        waiting = int((~loaded.runs["chosen"]).sum())
        text = f"{waiting} runs at several tuned values, none chosen yet; nothing is compared before."
        return [text] if waiting else []
    found = [] if choice.final else ["The choice of tuned values is not final: runs behind it have not ended."]
    return found + [f"{name}: {text}." for name, text in choice.warnings.items()]


def machine(environment: Mapping[str, Any]) -> str:
    """What a run was computed on, in one line."""
    keys = ("device_name", "device", "torch", "python", "threads", "platform")
    return ", ".join(f"{key.replace('_', ' ')} {environment[key]}" for key in keys if environment.get(key))


def _tuned(loaded: Loaded) -> str:
    assert loaded.choice is not None
    choice, n = loaded.choice, len(loaded.choice.tried)
    tried = sorted({setting(v[LR]) for v in choice.tried.values() if LR in v}, key=float)
    grid = f"the same {len(tried)} rates {tried[0]} to {tried[-1]}" if tried else f"{n} runs"
    each = [
        f"{name} {', '.join(setting(v) if p == LR else f'{p}={setting(v)}' for p, v in values.items())}"
        for name, values in choice.values.items()
        if values
    ]
    return f"tuned for every variant over {grid} on {choice.metric} ({n} runs), chosen: {listed(each, most=20)}"


def _range(values: pd.Series) -> str:
    low, high = float(values.min()), float(values.max())
    return count(low) if low == high else f"{count(low)} to {count(high)}"
