"""The experiments that ship: one question a file, listed here by hand."""

from __future__ import annotations

import importlib

from experiments.experiment import Experiment

NAMES = ("components", "length", "factorial", "translation")
DEFAULT = ("components", "length")  # what `python run_all.py` runs


def get(name: str) -> Experiment:
    """The experiment of a catalog name: `experiments/catalog/<name>.py` defines `experiment`."""
    found = importlib.import_module(f"experiments.catalog.{name.replace('-', '_')}").experiment
    assert isinstance(found, Experiment)
    return found
