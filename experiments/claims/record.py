"""claim.json: the card as it was before the first run. A card that changes afterwards says so for ever."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from experiments import records
from experiments.claims.card import Claim
from experiments.runner.plan import differences

CLAIM = "claim.json"


def record(claim: Claim, results: Path, command: str) -> list[str]:
    """Writes the card beside its results-to-be.

    Args:
        command: that asks for this verdict again.

    Returns:
        What a person must hear at once: that the card is not the one that the runs there were made for.
    """
    folder = results / claim.name
    folder.mkdir(parents=True, exist_ok=True)
    old = _old(folder)
    content = {
        "schema": records.SCHEMA, "hash": claim.hash, "recorded": _now(), "command": command, "earlier": [],
        "late": False, "claim": claim.to_dict(), "cells": _cells(claim),
    }
    if old is None:
        content["late"] = _has_results(folder)
    elif old["hash"] == claim.hash:
        content |= {key: old[key] for key in ("recorded", "earlier", "late")}
    elif _has_results(folder):
        changed = differences(old["claim"], claim.to_dict())
        earlier = {"hash": old["hash"], "recorded": old["recorded"], "changed": changed}
        content |= {"earlier": [*old["earlier"], earlier], "late": old["late"]}
    if old is None or content != old:
        records.write_json(folder / CLAIM, content)
    return _warnings(claim.name, content)


def _warnings(name: str, content: Mapping[str, Any]) -> list[str]:
    said = [
        f"{name}: THE CARD WAS CHANGED AFTER RUNS EXISTED ({one['hash'][:8]} of {one['recorded']}): "
        + "; ".join(one["changed"][:6])
        for one in content["earlier"]
    ]
    if content["late"]:
        said.append(f"{name}: there were runs before the card was recorded; the verdict says so")
    return said


def _cells(claim: Claim) -> list[dict[str, Any]]:
    return [
        {"arm": arm, "lr": lr, "task": task, "variant": claim.variant(arm, lr, task)}
        for arm, lr, task in claim.cells()
    ]


def _old(folder: Path) -> dict[str, Any] | None:
    with contextlib.suppress(FileNotFoundError, records.Damaged):
        found = records.read_json(folder / CLAIM)
        return found if {"hash", "recorded", "earlier", "late", "claim"} <= set(found) else None
    return None


def _has_results(folder: Path) -> bool:
    return any(folder.glob(f"runs/*/{records.RESULT}"))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
