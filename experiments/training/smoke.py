"""The smallest run that still goes through everything: does it start, step, evaluate and write its files?"""

from __future__ import annotations

import inspect

from experiments.check import build_task
from experiments.config import RunConfig
from experiments.tasks import TASKS
from transformer.spec import Spec

STEPS, BATCH, LENGTH = 3, 1, 10
SIZES = {"context": LENGTH, "length": LENGTH, "max_length": LENGTH, "max_len": LENGTH, "eval_rows": 8,
         "eval_tokens": 8 * LENGTH, "test_tokens": 8 * LENGTH}  # options of tasks that mean a size, and a small value


def smoke(config: RunConfig) -> RunConfig:
    """The same model and features on a batch of one, sequences of 10 where the task can make them, and 3 steps.

    Its results say whether a run works, never how well; its identity differs, so they cannot be mixed up with others.
    """
    return config.replace({
        "task": _shrunk(config.task), "train.steps": STEPS, "train.batch_size": BATCH, "train.accumulate": 1,
        "train.warmup": min(1, config.train.warmup_steps()), "train.eval_every": STEPS,
    })


def _shrunk(spec: Spec) -> Spec:
    """Each size option that the task has, made smaller where the task accepts it."""
    options = TASKS.options(spec.name)
    for name, small in SIZES.items():
        value = spec.options.get(name, options[name].default) if name in options else inspect.Parameter.empty
        if isinstance(value, int) and value > small:
            smaller = spec.replace(**{name: small})
            spec = smaller if _works(smaller) else spec
    return spec


def _works(spec: Spec) -> bool:
    try:
        build_task(spec)
    except ValueError:
        return False
    return True
