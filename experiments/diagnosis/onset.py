"""When something began, from what a run recorded of its layers (inside.jsonl); without a record nothing is said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Rows = Sequence[Mapping[str, float]]
GREW = 100.0  # times since the first record: what is worth telling of a run that diverged


def since(rows: Rows, name: str, limit: float) -> str:
    """`, since step 200`: from where on a recorded number has been above the limit until the end; empty if nowhere."""
    found = None
    for row in rows:
        above = row.get(name, 0.0) > limit
        found = (found if found is not None else int(row["step"])) if above else None
    return "" if found is None else f" (recorded: since step {found})"


def growth(rows: Rows) -> str:
    """`; recorded: decoder.layers.1/rms 0.03 at step 0, 5.1e+03 at step 200`: what grew most, GREW times at least."""
    if len(rows) < 2:
        return ""
    first, last = rows[0], rows[-1]
    ratios = {
        name: last[name] / value for name, value in first.items()
        if value > 0 and name in last and name.endswith(("/rms", "/score_rms"))
    }
    name = max(ratios, key=lambda key: ratios[key], default="")
    if not name or ratios[name] < GREW:
        return ""
    return (f"; recorded: {name} {first[name]:.3g} at step {first['step']:.0f}, {last[name]:.3g} at step "
            f"{last['step']:.0f}")
