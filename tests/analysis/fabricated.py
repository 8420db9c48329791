"""A results/ tree as the suite would leave it, made without training: known scores, known faults."""

import json
import math
import random
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments import records
from experiments.config import digest
from experiments.experiment import slug

# (variant, path, value, true difference in loss to the baseline, parameters)
COMPONENTS: tuple[tuple[str, str, Any, float, int], ...] = (
    ("positional=none", "model.positional", "none", 0.030, 101_000),
    ("positional=sinusoidal", "model.positional", "sinusoidal(amplitude=0.02)", 0.026, 101_000),
    ("positional=learned", "model.positional", "learned", 0.015, 105_100),
    ("positional=alibi", "model.positional", "alibi", 0.004, 101_000),
    ("feedforward=relu", "model.feedforward", "relu", 0.006, 101_000),
    ("feedforward=swiglu", "model.feedforward", "swiglu", -0.021, 101_400),
    ("norm=rmsnorm", "model.norm", "rmsnorm", 0.000, 100_700),
    ("norm=none", "model.norm", "none", 0.900, 100_400),
    ("placement=post", "model.placement", "post", 0.110, 101_000),
    ("scaling=none", "model.scaling", "none", 0.013, 101_000),
    ("n_heads=1", "model.n_heads", 1, 0.045, 101_000),
)  # fmt: skip
Key = tuple[str, int]


def fabricate(
    results: Path,
    name: str = "components",
    *,
    variants: Sequence[tuple[str, str, Any, float, int]] = COMPONENTS,
    seeds: int = 5,
    steps: int = 150,
    every: int = 10,
    noise: float = 0.004,
    diverged: Collection[Key] = (),
    failed: Collection[Key] = (),
    missing: Collection[Key] = (),
    lengths: Mapping[str, int] = {},
    trained: int | None = None,
    metric: str = "test/loss",
    goal: str = "min",
    smallest_effect: float | None = 0.01,
    rates: Mapping[float, float] = {},
    question: str = "Which parts of a small transformer matter on English prose, and by how much?",
) -> list[dict[str, Any]]:
    """Writes `results/<name>` and returns the planned runs. The same arguments write the same numbers."""
    table = (("baseline", "", None, 0.0, 101_000), *variants)
    planned = [
        _planned(name, variant, seed, rate) for seed in range(seeds) for rate in rates or (None,) for variant in table
    ]
    _write_experiment(results, name, table, seeds, planned, metric, goal, smallest_effect, question)
    for run in planned:
        key, rate = (run["variant"], run["seed"]), run.pop("rate")
        if key in missing:
            continue
        truth = next(v for v in table if v[0] == run["variant"])
        truth = (*truth[:3], truth[3] + rates.get(rate, 0.0), truth[4])
        folder = records.run_directory(results, name, run["id"])
        folder.mkdir(parents=True)
        _write_config(folder, name, run, truth)
        if key in failed:
            records.write_json(folder / records.FAILURE, {
                "run_id": run["id"], "hash": run["hash"], "kind": "out_of_memory", "error": "needs 9.1 GB, has 2.0 GB",
                "traceback": "Traceback ...", "attempt": 1, "when": "2026-01-01T00:00:00Z", "log": "log.txt",
            })  # fmt: skip
            continue
        _write_run(folder, name, run, truth, steps, every, noise, key in diverged, dict(lengths), trained)
    return planned


def choose(results: Path, name: str, planned: list[dict[str, Any]], rates: list[float], **picked: float | None) -> None:
    """Writes choice.json as the lr_grid protocol does: the first rate for every variant that `picked` does not name."""
    variants = list(dict.fromkeys(run["variant"] for run in planned))
    of = {id(run): rates[index // len(variants) % len(rates)] for index, run in enumerate(planned)}
    best = {variant: picked.get(variant.replace("=", "_"), rates[0]) for variant in variants}
    records.write_json(results / name / "choice.json", {
        "schema": 1, "protocol": {"name": "lr_grid"}, "metric": "validation/loss", "goal": "min", "final": True,
        "variants": {
            variant: {
                "values": {"train.lr": rate} if rate else {}, "mean": 2.0, "edge": None,
                "runs": [run["id"] for run in planned if run["variant"] == variant and of[id(run)] == rate],
                "warning": "" if rate else "no learning rate with a score for every seed",
            }
            for variant, rate in best.items()
        },
        "tried": {run["id"]: {"train.lr": of[id(run)]} for run in planned},
    })  # fmt: skip


def _planned(name: str, variant: tuple[str, str, Any, float, int], seed: int, rate: float | None) -> dict[str, Any]:
    identity = digest({"experiment": name, "variant": variant[0], "seed": seed, **({"lr": rate} if rate else {})})
    found = {"id": f"{slug(variant[0])}-s{seed}-{identity[:8]}", "variant": variant[0], "seed": seed, "hash": identity}
    return {**found, "rate": rate}


def _changes(variant: tuple[str, str, Any, float, int]) -> dict[str, Any]:
    value = variant[2]
    return {variant[1]: {"name": value} if isinstance(value, str) else value} if variant[1] else {}


def _write_experiment(
    results: Path, name: str, table: Sequence[tuple[str, str, Any, float, int]], seeds: int, planned: list[dict[str, Any]],
    metric: str, goal: str, smallest_effect: float | None, question: str,
) -> None:  # fmt: skip
    (results / name).mkdir(parents=True)
    records.write_json(results / name / records.EXPERIMENT, {
        "schema": 1, "name": name, "question": question, "metric": metric, "goal": goal,
        "smallest_effect": smallest_effect, "tags": ["text"], "seeds": list(range(seeds)), "baseline": "baseline",
        "baseline_config": _config("gelu"), "variants": [{"name": v[0], "changes": _changes(v)} for v in table],
        "runs": [{k: v for k, v in run.items() if k != "rate"} for run in planned], "imports": [], "source": name, "definition": digest(name),
        "command": f"python run_all.py run {name}",
    })  # fmt: skip


def _config(feedforward: str) -> dict[str, Any]:
    return {
        "model": {
            "d_model": 64, "n_layers": 2, "n_heads": 4, "positional": {"name": "rope"}, "feedforward": {"name": feedforward},
            "norm": {"name": "layernorm"}, "placement": {"name": "pre"}, "scaling": {"name": "sqrt_d_head"},
        },
        "task": {"name": "text", "options": {"corpus": "austen", "context": 64}},
        "train": {"steps": 150, "batch_size": 16, "lr": 0.003, "schedule": {"name": "cosine"}, "eval_every": 50},
        "seed": 0,
    }  # fmt: skip


def _write_config(folder: Path, name: str, run: dict[str, Any], variant: tuple[str, str, Any, float, int]) -> None:
    records.write_json(folder / records.CONFIG, {
        "schema": 1, "run_id": run["id"], "experiment": name, "variant": run["variant"], "seed": run["seed"],
        "hash": run["hash"], "changes": _changes(variant), "config": {**_config("gelu"), "seed": run["seed"]},
        "identity": {"seed": run["seed"]},
    })  # fmt: skip


def _write_run(
    folder: Path, name: str, run: dict[str, Any], variant: tuple[str, str, Any, float, int], steps: int, every: int,
    noise: float, diverged: bool, lengths: dict[str, int], trained: int | None,
) -> None:  # fmt: skip
    draw = random.Random(f"{name} {run['id']}")
    block = random.Random(run["seed"]).gauss(0, 0.02)  # what all variants of a seed share
    final = 2.1 + variant[3] + block + draw.gauss(0, noise)
    stop = steps // 3 if diverged else steps
    lines = list(_curve(draw, final, steps, every, stop))
    if diverged:
        lines.append({"step": stop, "seconds": stop * 0.02, "train/loss": math.nan})
    content = "".join(json.dumps(line) + "\n" for line in lines).encode()
    (folder / records.METRICS).write_bytes(content)
    (folder / records.LOG).write_text(f"step {stop}: stopped\n" if diverged else f"step {steps}: done\n")
    seconds = 3.0 * variant[4] / 101_000 * draw.uniform(0.97, 1.03)
    records.write_json(folder / records.RESULT, {
        "schema": 1, "run_id": run["id"], "experiment": name, "variant": run["variant"], "seed": run["seed"],
        "hash": run["hash"], "status": "diverged" if diverged else "done",
        "metrics": _scores(final + 2 * diverged, lengths, variant[3], draw), "lengths": _lengths(lengths, trained),
        "cost": {
            "parameters": variant[4], "parameters_non_embedding": variant[4] - 5000, "flops_per_token": 6 * variant[4],
            "tokens": stop * 1024, "steps": stop, "seconds": seconds + 0.4, "train_seconds": seconds,
            "peak_memory_bytes": 412_000_000 + 100 * variant[4],
        },
        "diverged": {"step": stop, "reason": "the loss is not finite"} if diverged else None, "stopped_early": False,
        "best": {"step": stop, "validation/loss": final}, "loss_floor": None,
        "environment": {
            "python": "3.11.2", "torch": "2.13.0+cpu", "device": "cpu", "device_name": "x86", "threads": 1,
            "platform": "Linux", "data_files": {},
        },
        "started": "2026-01-01T00:00:00Z", "finished": "2026-01-01T00:00:03Z",
        "metrics_sha256": records.file_digest(folder / records.METRICS),
    })  # fmt: skip


def _lengths(lengths: dict[str, int], trained: int | None) -> dict[str, int]:
    return lengths if trained is None else {"": trained, **lengths}


def _curve(draw: random.Random, final: float, steps: int, every: int, stop: int) -> Any:
    for step in range(every, stop + 1, every):
        value = final + 2.0 * math.exp(-5 * step / steps) + draw.gauss(0, 0.005)
        row = {
            "step": step,
            "seconds": round(step * 0.02, 3),
            "train/loss": value - 0.03,
            "train/lr": 0.003,
            "train/grad_norm": 0.9,
        }
        if step % (5 * every) == 0 or step == steps:
            row |= {"validation/loss": value, "validation/accuracy": 1 / (1 + value)}
        yield row


def _scores(loss: float, lengths: dict[str, int], harm: float, draw: random.Random) -> dict[str, float]:
    scores = {
        "test/loss": loss, "test/perplexity": math.exp(loss), "test/bits_per_token": loss / math.log(2),
        "test/accuracy": 1 / (1 + loss), "validation/loss": loss + 0.01,
    }  # fmt: skip
    if lengths:
        scores["test/accuracy"] = 0.97 + draw.gauss(0, 0.003)
    for index, label in enumerate(lengths, start=1):
        decay = 0.95 * math.exp(-(0.05 + 8 * max(0.0, harm)) * index) + draw.gauss(0, 0.01)
        scores[f"test/{label}/accuracy"] = min(1.0, max(0.0, decay))
        scores[f"test/{label}/loss"] = loss + 0.1 * index
    return scores
