"""Runs every check, in the order in which an experienced person would look: causes before their consequences."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from experiments.diagnosis.case import Case
from experiments.diagnosis.data_checks import configuration, labels, overlap, repetition
from experiments.diagnosis.finding import Diagnosis, Finding, worst_first
from experiments.diagnosis.memory import memory
from experiments.diagnosis.model_checks import (
    dead_units,
    future,
    gradients,
    not_a_number,
    positions,
    saturated_in_vain,
    saturation,
    scale,
)
from experiments.diagnosis.repeats import repeats_itself
from experiments.diagnosis.training_checks import (
    CONTRACTS,
    OWN_PARTS,
    crash,
    divergence,
    oscillation,
    overfitting,
    rate,
    stall,
    too_good,
    uniform_attention,
)

ENDS = ("not_a_number", "crash")  # after these nothing else can be said
Check = Callable[[Case], Iterator[Finding]]

STATIC: tuple[Check, ...] = (overlap, labels, repetition, not_a_number, future, positions)  # no step is trained
CHECKS: tuple[Check, ...] = (
    *STATIC, crash, divergence, too_good, saturation, scale, gradients, oscillation, dead_units, saturated_in_vain,
    overfitting, uniform_attention, stall, repeats_itself, memory, rate,
)


def diagnose(case: Case, checks: Sequence[Check] = CHECKS) -> Diagnosis:
    """Every check on one case.

    Checks end early where going on makes no sense: a configuration that cannot start, a model that gives NaN.
    """
    found, seconds = list(configuration(case)), dict[str, float]()
    for check in () if found else checks:
        began = time.perf_counter()
        found += _careful(case, check)
        seconds[check.__name__] = round(time.perf_counter() - began, 2)
        if any(one.check in ENDS for one in found):
            break
    return Diagnosis(case.name, case.looked_at(), worst_first(found), seconds)


def _careful(case: Case, check: Check) -> list[Finding]:
    """What a check says; a component or task that raises under it is a finding too."""
    try:
        return list(check(case))
    except (ValueError, RuntimeError, IndexError, TypeError, AssertionError) as error:
        return [Finding(
            "crash", "broken", "the model cannot be run on its first batch",
            f"{type(error).__name__}: {error} (while looking at: {check.__name__})", OWN_PARTS, CONTRACTS,
        )]
