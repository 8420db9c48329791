"""What a sweep shows while it runs: one live block on a terminal, one plain line per finished run elsewhere."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from experiments.runner.events import Event

WORDS = {"done": "ok", "diverged": "diverged", "reused": "reused"}
ENDS = (*WORDS, "elsewhere")


def duration(seconds: float) -> str:
    """`41s`, `24m`, `3h10m`."""
    if seconds < 100:
        return f"{seconds:.0f}s"
    minutes = round(seconds / 60)
    return f"{minutes}m" if minutes < 100 else f"{minutes // 60}h{minutes % 60:02d}m"


@dataclass
class Progress:
    """Counts finished runs and estimates the rest.

    Args:
        total: runs to do now. slots: workers. console: where to write.
    """

    total: int
    slots: int
    console: Console
    quiet: bool = False
    finished: int = 0
    failed: int = 0
    began: float = field(default_factory=time.monotonic)
    active: dict[int, Any] = field(default_factory=dict)

    def eta(self) -> str:
        """Time left at the rate so far; `?` before anything has finished."""
        worked = self.finished + sum(e.step / e.steps for e in self.active.values() if e.steps)
        if worked < 0.05:
            return "?"
        return duration((time.monotonic() - self.began) / worked * max(0.0, self.total - worked))

    def __call__(self, event: Event) -> None:
        if event.kind in ("started", "progress"):
            self.active[event.slot] = event
            return
        self.active.pop(event.slot, None)
        if event.kind in ENDS or event.is_failure:
            self.finished += 1
            self.failed += event.is_failure
            self._line(event)

    def _line(self, event: Event) -> None:
        count = f"[{self.finished}/{self.total}]"
        if event.is_failure:
            self._say(f"{count} {event.kind.upper()} {event.run_id}: {event.error}")
            self._say(f"    log: {event.log}")
            self._say(f"    repeat it with: {event.repeat}")
        elif not self.quiet:
            score = event.metrics.get("validation/loss")
            loss = f" val_loss {score:.4f}" if isinstance(score, float) else ""
            word = WORDS.get(event.kind, event.kind)
            self._say(f"{count} {word} {event.run_id}{loss} {duration(event.seconds)} ETA {self.eta()}")

    def _say(self, line: str) -> None:
        self.console.print(line, markup=False, soft_wrap=True)


class LiveProgress(Progress):
    """The same on a terminal: finished failures scroll by, the rest is one block."""

    def _line(self, event: Event) -> None:
        if event.is_failure or event.kind == "diverged":
            super()._line(event)

    def __rich__(self) -> Group:
        head = Text(f"{self.finished}/{self.total} runs, {self.failed} failed, ETA {self.eta()}")
        table = Table.grid(padding=(0, 1))
        for slot in range(self.slots):
            event = self.active.get(slot)
            if event is None:
                table.add_row(f"worker {slot}", "idle", "", "")
            else:
                loss = f"loss {event.loss:.3f}" if event.loss is not None else ""
                table.add_row(f"worker {slot}", event.run_id, f"{event.step}/{event.steps or '?'}", loss)
        return Group(ProgressBar(total=self.total, completed=self.finished, width=50), head, table)


class Show:
    """Context manager that picks the right form for the terminal: `with Show(total, slots) as on_event:`."""

    def __init__(self, total: int, slots: int, *, quiet: bool, as_json: bool) -> None:
        self.console = Console(file=sys.stderr if as_json else sys.stdout, highlight=False, markup=False)
        form = LiveProgress if self.console.is_terminal and not quiet else Progress
        self.progress = form(total, slots, self.console, quiet=quiet)
        self.live: Live | None = None

    def __enter__(self) -> Progress:
        if isinstance(self.progress, LiveProgress):
            self.live = Live(self.progress, console=self.console, refresh_per_second=4, transient=True)
            self.live.start()
        return self.progress

    def __exit__(self, *exception: object) -> None:
        if self.live is not None:
            self.live.stop()
