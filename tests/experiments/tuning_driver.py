"""A tuner in a process of its own, to be killed: `python -m tests.experiments.tuning_driver RESULTS JSON`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from experiments.config import Spec
from experiments.files import Declared
from experiments.runner.local import LocalEngine
from experiments.runner.options import Options
from experiments.tuning.request import Request
from experiments.tuning.session import session
from tests.experiments.tuning_jobs import TARGET, Valley
from tests.experiments.tuning_kit import LR, experiment


def main(results: Path, settings: dict) -> int:
    """Tunes as the settings say; prints the pids of its workers and `done`."""
    space = {**LR, **settings.get("space", {})} if not settings.get("cells") else settings["cells"]
    declared = experiment(space=space, seeds=settings.get("seeds", 1))
    request = Request(
        trials=settings["trials"], seeds=settings.get("seeds", 1), storage=settings.get("storage"),
        sampler=Spec.parse(settings.get("sampler", {"name": "tpe", "startup": 4})),
        pruner=Spec.parse(settings.get("pruner", "none")),
    )
    options = Options(Valley.maker(results, **settings.get("job", {})), target=TARGET)
    engine = engine_of(settings)
    with session(Declared(declared, declared.name), request, results) as going:
        print("ready", flush=True)
        outcome = going.run(lambda: engine, options, on_event=lambda event: print(event.kind, event.run_id, flush=True))
    print("outcome", outcome.exit_code, flush=True)
    return outcome.exit_code


def engine_of(settings: dict):
    """Local processes, or a Ray cluster of this machine."""
    workers = settings.get("workers", 2)
    if settings.get("engine") != "ray":
        return LocalEngine(["cpu"] * workers, target=TARGET)
    from experiments.runner.ray_engine import RayEngine

    return RayEngine(target=TARGET, workers=workers, device="cpu")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), json.loads(sys.argv[2])))
