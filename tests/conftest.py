"""One compute thread, as in a worker; set before anything imports torch."""

import os

for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import sys  # noqa: E402

import pytest  # noqa: E402


@pytest.fixture(autouse=True, scope="module")
def _parts_of_user_files_are_gone_afterwards():
    """What a test file registers by importing a user's file is no part of the next test file's registries."""
    yield
    slots, tasks = sys.modules.get("transformer.slots"), sys.modules.get("experiments.tasks")
    registries = [*(slots.REGISTRIES.values() if slots else ()), *([tasks.TASKS] if tasks else ())]
    for registry in registries:
        for name, entry in list(registry._entries.items()):
            if entry.cls.__module__.startswith("user_"):
                del registry._entries[name]
