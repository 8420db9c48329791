"""Checks of task options: every broken rule in one error, each sentence with the value and the way out."""

from __future__ import annotations


def require(*rules: tuple[bool, str]) -> None:
    """Raises ValueError with the sentence of every rule (holds, sentence) that does not hold, one a line."""
    broken = [sentence for holds, sentence in rules if not holds]
    if broken:
        raise ValueError("\n".join(broken))


def at_least(task: str, least: int, **values: int) -> tuple[bool, str]:
    """The rule that each named option is at least `least`."""
    low = {name: value for name, value in values.items() if value < least}
    shown = ", ".join(f"{name}={value}" for name, value in low.items())
    return not low, f"task '{task}': {shown} must be at least {least}"
