"""Ctrl-C and SIGTERM while a launch goes on."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType


@contextlib.contextmanager
def signals(interrupt: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C and SIGTERM call `interrupt` instead of ending us; only the main thread can arrange that."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        interrupt()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
