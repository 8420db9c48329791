"""Every registered component, and tiny models around each."""

import itertools
from contextlib import contextmanager

import torch

from transformer import ModelConfig, Spec, build
from transformer.config import SLOTS
from transformer.slots import REGISTRIES

BUILT_IN = {slot: REGISTRIES[slot].names() for slot in SLOTS}


@contextmanager
def users_file_imported():
    """The registries as they are once a user's file is imported, and as they were afterwards."""
    for slot, entries in USERS.items():
        REGISTRIES[slot]._entries.update({entry.name: entry for entry in entries})
    yield
    for slot, entries in USERS.items():
        for entry in entries:
            del REGISTRIES[slot]._entries[entry.name]


def _imported_once():
    """What the user's file registers; taken out again, so that other tests see the shipped names alone."""
    before = {slot: dict(registry._entries) for slot, registry in REGISTRIES.items()}
    import tests.contracts.user_components  # noqa: F401

    added = {}
    for slot, registry in REGISTRIES.items():
        added[slot] = [entry for name, entry in registry._entries.items() if name not in before[slot]]
        for entry in added[slot]:
            del registry._entries[entry.name]
    return added


USERS = _imported_once()
NAMES = {slot: [*BUILT_IN[slot], *(entry.name for entry in USERS[slot])] for slot in SLOTS}
CLASSES = {
    (slot, entry.name): entry.cls
    for slot in SLOTS
    for entry in [*(REGISTRIES[slot].entry(name) for name in BUILT_IN[slot]), *USERS[slot]]
}
COMPONENTS = [(slot, name) for slot in SLOTS for name in NAMES[slot]]
ARCHITECTURES = ["decoder", "encoder", "encoder_decoder"]
VOCAB = 13


def config(**fields):
    """A tiny model; slots by name or Spec."""
    fields = {key: Spec.parse(value) if key in SLOTS else value for key, value in fields.items()}
    return ModelConfig(**{"d_model": 16, "n_heads": 2, "n_layers": 2, "d_ff": 24, **fields})


def model(made, seed=0, max_len=48):
    return build(made, vocab_size=VOCAB, max_len=max_len, seed=seed, n_classes=3)


def tokens(batch=2, length=10, seed=0):
    return torch.randint(0, VOCAB, (batch, length), generator=torch.Generator().manual_seed(seed))


def inputs(architecture, length=10):
    """What a model of that architecture takes: tokens, or a source and tokens."""
    return (tokens(length=length + 2, seed=1), tokens(length=length)) if architecture == "encoder_decoder" else (
        tokens(length=length),
    )


def combinations(*slots, names=None):
    """Every legal choice of names for the slots (inside a test, where the user's are registered)."""
    names = names or NAMES
    for chosen in itertools.product(*(names[slot] for slot in slots)):
        fields = dict(zip(slots, chosen, strict=True))
        if not config(**fields).problems():
            yield fields
