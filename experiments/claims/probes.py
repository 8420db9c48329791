"""What is measured on a run's trained weights: pure functions of its directory and its configuration."""

from __future__ import annotations

import functools
from pathlib import Path

import torch
from torch import Tensor

from experiments import records
from experiments.check import build_task, model_arguments
from experiments.claims.measured import function, one_thread
from experiments.claims.reference import Reference, reference
from experiments.config import RunConfig, Spec
from experiments.seeds import torch_stream
from experiments.tasks import Task
from experiments.training.checkpoint import load_weights
from transformer.generation import Decode, generate
from transformer.generation.statistics import loop_rate, repeated_ngram_share
from transformer.models import build

PROBES = "probes"
PROMPTS, PROMPT, NEW = 100, 16, 48
METHODS = {
    "greedy": Decode(), "beam": Decode(beams=4), "top_k": Decode(temperature=1.0, top_k=10),
    "top_p": Decode(temperature=1.0, top_p=0.9), "penalty": Decode(repetition_penalty=1.2),
}


def probe_runs(path: str, results: Path, name: str) -> list[str]:
    """Measures every run that has a result and no probe yet.

    Args:
        path: `module:function` of the probe.

    Returns:
        One sentence for each run that could not be measured.
    """
    folder = results / name / PROBES
    folder.mkdir(parents=True, exist_ok=True)
    problems = []
    for directory in records.run_directories(results, name):
        stored = records.read_run(directory)
        if stored.result is None or stored.config is None or _measured(folder / f"{directory.name}.json", stored):
            continue
        try:
            with one_thread():
                metrics = function(path)(directory, RunConfig(**stored.config["config"]))
        except (OSError, ValueError) as error:
            problems.append(f"{directory.name} could not be measured: {error}")
            continue
        content = {"schema": records.SCHEMA, "hash": stored.result["hash"], "probe": path, "metrics": metrics}
        records.write_json(folder / f"{directory.name}.json", content)
    return problems


def _measured(path: Path, stored: records.Stored) -> bool:
    try:
        return bool(records.read_json(path).get("hash") == (stored.result or {}).get("hash"))
    except (FileNotFoundError, records.Damaged):
        return False


def repetition(directory: Path, config: RunConfig) -> dict[str, float]:
    """Repeated 4-grams, loops and likeness to the data, of text by each method and of people's own.

    Every method continues the same beginnings of test windows; shares are means over the texts of this one model.
    """
    task = build_task(config.task)
    model = build(config.model, seed=config.seed, **model_arguments(task))
    load_weights(directory / records.WEIGHTS, model)
    windows = _windows(task, config.seed)
    judge = _reference(config.task)
    found = {f"human/{k}": v for k, v in _scores(windows[:, PROMPT : PROMPT + NEW], judge).items()}
    for name, method in METHODS.items():
        decode = method.replace({"max_new_tokens": NEW})
        drawn = torch_stream(config.seed, "probe", name)
        text = generate(model, windows[:, :PROMPT], decode, generator=drawn).tokens[:, 0]
        found |= {f"{name}/{k}": v for k, v in _scores(text, judge).items()}
    return found


def _scores(text: Tensor, judge: Reference) -> dict[str, float]:
    rows = text.tolist()
    return {
        "repeated_4grams": sum(repeated_ngram_share(row, 4) for row in rows) / len(rows),
        "loops": loop_rate(rows), "reference_loss": judge.loss(rows),
    }


def _windows(task: Task, seed: int) -> Tensor:
    """The first PROMPTS test windows of the seed block, long enough for a prompt and what people wrote after it."""
    rows = torch.cat([batch.inputs for batch in task.evaluations("test", seed)[0].batches])
    if rows.shape[1] < PROMPT + NEW:
        raise ValueError(f"test windows of {rows.shape[1]} tokens are shorter than {PROMPT + NEW}; raise context")
    return rows[:PROMPTS]


@functools.lru_cache(maxsize=2)
def _reference(task: Spec) -> Reference:
    return reference(build_task(task))

