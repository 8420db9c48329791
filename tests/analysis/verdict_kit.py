"""A claim's folder as the suite would leave it, made without training."""

import json
from pathlib import Path

from experiments import records
from tests.analysis.fabricated import fabricate

DELTA = 0.01


class Scores:
    """A rule over made-up differences, one a seed."""

    by_seeds = True

    def __init__(self, differences, delta, decide):
        self.differences, self.delta, self.how = list(differences), delta, decide

    def decide(self, seeds, level):
        return self.how([self.differences[seed] for seed in seeds], delta=self.delta, level=level)

    def gaps(self, seeds):
        return []

    def arms(self):
        return ()


def claim_folder(results: Path, *, harm=0.05, seeds=5, looks=(5, 10, 20), name="made-up", rule=None, **fabricated):
    """A claim that the baseline beats `other`, whose loss is higher by `harm`; returns the planned runs."""
    planned = fabricate(
        results, name, variants=[("other", "model.norm", "none", harm, 101_000)], seeds=seeds, **fabricated
    )
    write_card(results, name, looks=looks, rule=rule)
    return planned


def write_card(results, name, *, looks=(5, 10, 20), rule=None, **extra):
    terms = [{"arm": "other", "metric": "test/loss", "weight": 1.0}, {"arm": "base", "metric": "test/loss", "weight": -1.0}]
    part = {
        "name": "loss", "says": "other has a higher loss", "kind": "quality", "primary": True,
        "rule": rule or {"name": "difference", "terms": terms, "delta": DELTA, "unit": "nats per token"},
    }
    records.write_json(results / name / "claim.json", {
        "schema": 1, "hash": "a" * 64, "recorded": "2026-01-01T00:00:00+00:00", "command": f"python run_all.py claims {name}",
        "earlier": [], "late": False,
        "claim": {
            "name": name, "scope": "made up", "looks": list(looks), "parts": [part],
            "choose": {"metric": "validation/loss", "goal": "min"},
        },
        "cells": [
            {"arm": "base", "lr": None, "task": "", "variant": "baseline"},
            {"arm": "other", "lr": None, "task": "", "variant": "other"},
        ],
        **extra,
    })  # fmt: skip


def only(found):
    assert len(found) == 1
    return found[0]


def reseal(path, **changes):
    content = {**{k: v for k, v in json.loads(path.read_text()).items() if k != "sha256"}, **changes}
    records.write_json(path, content)
