"""Verdicts on claims: SUPPORTED, REFUTED or INCONCLUSIVE, by a rule that was fixed before the first run.

    evidence.py   what the runs and measurements say, and what is missing
    contrast.py   one number a seed from arms, learning rates and metrics
    decision.py   the rule for a difference and for an equivalence     levels.py  the levels over looks and parts
    rules.py      the rule of each kind of claim                       looks.py   look by look; the first stands
    gates.py guard.py   robustness, and conditions                     scope.py   how far it reaches
    verdict.py    the answer                                           claim.py   from a folder to its verdicts
    noise.py change.py  noise floor, speed-up at equal loss            table.py   the table of verdicts
    summary.py    what of it can be committed                      readme.py  the README's table of it
"""

from analysis.verdicts.change import Change, about_change
from analysis.verdicts.claim import released, verdicts
from analysis.verdicts.decision import Decision, decide_difference, decide_equivalence
from analysis.verdicts.levels import Level, level
from analysis.verdicts.looks import look
from analysis.verdicts.noise import NoiseFloor, noise_floor, speed_up_of
from analysis.verdicts.table import markdown
from analysis.verdicts.verdict import Verdict

__all__ = [
    "Change", "Decision", "Level", "NoiseFloor", "Verdict", "about_change", "decide_difference", "decide_equivalence",
    "level", "look", "markdown", "noise_floor", "released", "speed_up_of", "verdicts",
]  # fmt: skip
