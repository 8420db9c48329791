"""What of many verdicts can be committed: the verdicts, every run's scores and its learning curve, and how they came.

    README.md            the table of verdicts, command, commit, versions, what was not run
    verdicts.json        every part's verdict, the card's hash, and how many seeds it had
    runs/<claim>.csv     one row a run: variant, seed, hash, status, cost, every test score
    curves/<claim>.csv   one row a validation: run, step, loss

Weights, logs and per-step metrics stay where the runs are; the hashes name them.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.load import Loaded, ReportError, load
from analysis.verdicts.evidence import PROBES
from analysis.verdicts.table import markdown
from analysis.verdicts.verdict import Verdict, plain
from analysis.words import count
from analysis.words import seconds as seconds_words
from experiments import records

FOLDERS = ("runs", "curves")
PACKAGES = ("torch", "numpy", "scipy", "pandas")
COLUMNS = ["run_id", "variant", "seed", "hash", "status", "steps", "tokens", "parameters", "seconds"]
KEPT = ("claim", "statement", "source", "hash", "seeds", "runs", "runs_saved", "stopped")
CURVE = "validation/loss"
DIGITS = "%.6g"


def summarise(folder: Path, results: Path, names: Sequence[str], verdicts: Sequence[Verdict], command: str) -> Path:
    """Writes the summary of the claims `names` from what lies in `results`, in place of an older one; its README.

    Args:
        verdicts: released; see `analysis.verdicts.released`.
        command: that led to them.
    """
    for part in FOLDERS:
        shutil.rmtree(folder / part, ignore_errors=True)
        (folder / part).mkdir(parents=True)
    claims = [_claim(results, name, verdicts) for name in names]
    loaded = {name: found for name in names if (found := _loaded(results, name)) is not None}
    for name, found in loaded.items():
        _write_runs(folder / "runs" / f"{name}.csv", found)
        _write_curves(folder / "curves" / f"{name}.csv", found)
    made = {"command": command, **_made(), **_spent(loaded)}
    records.write_json(folder / "verdicts.json", {"schema": records.SCHEMA, "made": made, "claims": claims})
    readme = folder / "README.md"
    records.write_bytes(readme, _readme(made, claims, verdicts).encode())
    return readme


def _claim(results: Path, name: str, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """What verdict.json says, with p over everything released; `run` tells whether anything was measured."""
    try:
        stored = records.read_json(results / name / "verdict.json")
    except (OSError, ValueError):
        stored = {"claim": name, "statement": "", "source": "", "stopped": "not run"}
    own = [{**plain(v.to_dict()), "runs": len(v.runs)} for v in verdicts if v.claim == name]
    kept = {key: stored.get(key) for key in KEPT}
    return {**kept, "verdicts": own}


def _loaded(results: Path, name: str) -> Loaded | None:
    if not (results / name / records.EXPERIMENT).exists():
        return None
    try:
        return load(results, name)
    except ReportError:
        return None


def _write_runs(path: Path, loaded: Loaded) -> None:
    scores = loaded.scores[loaded.scores["metric"].str.startswith("test/")]
    wide = scores.pivot(index="run_id", columns="metric", values="value").reset_index()
    table = loaded.runs[COLUMNS].merge(wide, on="run_id", how="left")
    probed = _probed(loaded)
    table = table if probed.empty else table.merge(probed, on="run_id", how="left")
    table.to_csv(path, index=False, float_format=DIGITS)


def _probed(loaded: Loaded) -> pd.DataFrame:
    """What was measured on trained weights: one row a run, one column a number."""
    rows = []
    for path in sorted((loaded.results / loaded.experiment / PROBES).glob("*.json")):
        with contextlib.suppress(OSError, ValueError):
            metrics = records.read_json(path)["metrics"]
            rows.append({"run_id": path.stem, **{f"probe/{name}": value for name, value in metrics.items()}})
    return pd.DataFrame(rows)


def _write_curves(path: Path, loaded: Loaded) -> None:
    curves = loaded.curves([CURVE])
    table = curves[["run_id", "step", "value"]].rename(columns={"value": CURVE})
    table.to_csv(path, index=False, float_format=DIGITS)


def _made() -> dict[str, Any]:
    return {
        "commit": _commit(), "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in PACKAGES},
        "machine": f"{os.cpu_count()} CPUs, {platform.machine()}, {platform.system()}",
    }  # fmt: skip


def _commit() -> str:
    """Of the code, with `+` where files differ from it; "" outside a checkout."""
    here = Path(__file__).parents[2]

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=here, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return ""


def _spent(loaded: Mapping[str, Loaded]) -> dict[str, Any]:
    """Runs, worker seconds and dates over all claims; a run that several claims share counts once."""
    if not loaded:
        return {"runs": 0, "worker_seconds": 0.0, "first": None, "last": None}
    runs = pd.concat([found.runs for found in loaded.values()]).dropna(subset=["finished"]).drop_duplicates("hash")
    return {
        "runs": len(runs), "worker_seconds": float(runs["seconds"].sum()),
        "first": str(runs["started"].min()), "last": str(runs["finished"].max()),
    }  # fmt: skip


def _readme(made: Mapping[str, Any], claims: Sequence[Mapping[str, Any]], verdicts: Sequence[Verdict]) -> str:
    versions = ", ".join(f"{name} {made[name]}" for name in ("python", *PACKAGES))
    lines = [
        "# Verdicts on textbook sentences", "",
        "Written by the command below, from runs; not by hand. How each sentence was tested, and by which rule it was "
        "decided, is on its card in `experiments/claims/cards/`; a card's hash was recorded before its first run.",
        "", "```", str(made["command"]), "```", "",
        f"- summary by commit `{made['commit'] or 'unknown'}`, runs by the code of their dates",
        f"- versions: {versions}; {made['machine']}",
        *_spent_words(made, sum(claim["runs_saved"] or 0 for claim in claims)),
        "- `runs/` has every run's test scores, `curves/` its validation losses, `verdicts.json` whole verdicts", "",
        "## Verdicts", "", markdown(verdicts),
        "Positive effects are as the sentence claims; intervals cover 95 % or, over several looks or parts, more; p is "
        "Holm-corrected over all primary parts shown.", "", "## What was not run", "", *_not_run(claims), "",
    ]  # fmt: skip
    return "\n".join(lines)


def _spent_words(made: Mapping[str, Any], saved: int) -> list[str]:
    if not made["runs"]:
        return ["- no run was needed"]
    spent = seconds_words(made["worker_seconds"])
    lines = [f"- {count(made['runs'])} runs, {spent} in one worker, from {made['first']} to {made['last']}"]
    if saved:
        lines.append(f"- {count(saved)} runs fewer than with as many seeds for every claim as its last look takes")
    return lines


def _not_run(claims: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = []
    for claim in claims:
        if not claim["verdicts"] or claim["stopped"] == "not run":
            lines.append(f"- `{claim['claim']}`: nothing ({claim['stopped'] or 'no evidence'})")
        elif claim["stopped"]:
            lines.append(f"- `{claim['claim']}`: more than {claim['seeds']} seeds ({claim['stopped']})")
    return lines or ["Everything on the cards was run as far as their rules ask."]


def read(folder: Path) -> dict[str, Any]:
    """Content of a summary's verdicts.json.

    Raises:
        OSError, ValueError: there is none, or it is damaged.
    """
    content: dict[str, Any] = json.loads((folder / "verdicts.json").read_text(encoding="utf-8"))
    return content
