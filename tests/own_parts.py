"""Parts that a test file registers, kept out of every other test's registries."""

from contextlib import contextmanager

from experiments.tasks import TASKS
from transformer.slots import REGISTRIES

EVERY = (*REGISTRIES.values(), TASKS)


def take_out(prefix):
    """Removes every part whose name begins with `prefix`; returns them as (registry, entry)."""
    parts = [(r, r.entry(name)) for r in EVERY for name in r.names() if name.startswith(prefix)]
    for registry, entry in parts:
        del registry._entries[entry.name]
    return parts


@contextmanager
def registered(parts):
    """The parts are registered inside, and gone again afterwards."""
    for registry, entry in parts:
        registry._entries[entry.name] = entry
    try:
        yield
    finally:
        for registry, entry in parts:
            registry._entries.pop(entry.name, None)
