"""What a check says: symptom, evidence, likely cause, what to change. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

Severity = Literal["broken", "harmful", "hint", "note"]
SEVERITIES: tuple[Severity, ...] = ("broken", "harmful", "hint", "note")
ALARMS: tuple[Severity, ...] = ("broken", "harmful")


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, or worth knowing.

    Attributes:
        check: name of the check that found it.
        severity: broken = the numbers mean nothing; harmful = training suffers; hint = it may; note = for information.
        symptom: what is seen. evidence: the numbers, with the limit that they crossed.
        cause: the likeliest reason. change: what to do, as paths of the configuration where there are any.
    """

    check: str
    severity: Severity
    symptom: str
    evidence: str
    cause: str
    change: str


@dataclass(frozen=True)
class Diagnosis:
    """What all checks said.

    Attributes:
        target: what was examined. looked_at: on which evidence, such as the steps that were replayed.
        findings: worst first; among equals, causes before their consequences.
        seconds: time of each check by name, the evidence that it was the first to ask for included.
    """

    target: str
    looked_at: str
    findings: tuple[Finding, ...]
    seconds: Mapping[str, float]

    @property
    def alarms(self) -> tuple[Finding, ...]:
        """The findings that should stop somebody from trusting the run."""
        return tuple(one for one in self.findings if one.severity in ALARMS)

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts and lists."""
        return {
            "target": self.target, "looked_at": self.looked_at, "findings": [asdict(one) for one in self.findings],
            "seconds": dict(self.seconds),
        }


def worst_first(findings: list[Finding]) -> tuple[Finding, ...]:
    """By severity; the order of the checks is kept within one."""
    return tuple(sorted(findings, key=lambda one: SEVERITIES.index(one.severity)))
