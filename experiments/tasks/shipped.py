"""The tasks that come with the suite, imported so that they register."""

from __future__ import annotations

from importlib import import_module

MODULES = (
    "text", "translation", "spelling", "language", "scan",
    "recall", "strings", "copying", "addition", "modular", "dyck", "listops", "markov", "word_order",
)


def load() -> None:
    """Import every shipped task."""
    for name in MODULES:
        import_module(f"experiments.tasks.{name}")
