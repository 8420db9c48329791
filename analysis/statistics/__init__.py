"""Statistics for a few seeds: pure functions over numpy and scipy, arrays in, small frozen dataclasses out."""

from analysis.statistics.contrasts import (
    HalfNormal,
    SimpleEffect,
    cell_mean,
    half_normal,
    large_interactions,
    simple_effects,
)
from analysis.statistics.counts import McNemar, Rate, RateTest, fisher, mcnemar, rate_interval
from analysis.statistics.design import Fraction, fraction, full_factorial
from analysis.statistics.equivalence import Equivalence, tost
from analysis.statistics.factorial import AnovaRow, Effect, Factorial, factorial, name_of
from analysis.statistics.linear import Contrast
from analysis.statistics.multiplicity import benjamini_hochberg, constant_level, crossing_probability, holm
from analysis.statistics.paired import (
    MeanInterval,
    Paired,
    half_width,
    lower_bound,
    mean_interval,
    p_above,
    p_below,
    paired,
    upper_bound,
)
from analysis.statistics.power import (
    minimal_effect,
    minimal_margin,
    power_of_t,
    power_of_tost,
    sd_upper_bound,
    seeds_for_equivalence,
    seeds_needed,
)
from analysis.statistics.samples import Goal, direction
from analysis.statistics.signflip import SignFlip, sign_flip
from analysis.statistics.speedup import SpeedUp, speed_up
from analysis.statistics.summaries import (
    Bootstrap,
    iqm,
    performance_profile,
    probability_of_improvement,
    stratified_bootstrap,
)
from analysis.statistics.tuning import LearningRateRange, Sensitivity, expected_best, lr_range, lr_sensitivity

__all__ = [
    "AnovaRow",
    "Bootstrap",
    "Contrast",
    "Effect",
    "Equivalence",
    "Factorial",
    "Fraction",
    "Goal",
    "HalfNormal",
    "LearningRateRange",
    "McNemar",
    "MeanInterval",
    "Paired",
    "Rate",
    "RateTest",
    "Sensitivity",
    "SignFlip",
    "SimpleEffect",
    "SpeedUp",
    "benjamini_hochberg",
    "cell_mean",
    "constant_level",
    "crossing_probability",
    "direction",
    "expected_best",
    "factorial",
    "fisher",
    "fraction",
    "full_factorial",
    "half_normal",
    "half_width",
    "holm",
    "iqm",
    "large_interactions",
    "lower_bound",
    "lr_range",
    "lr_sensitivity",
    "mcnemar",
    "mean_interval",
    "minimal_effect",
    "minimal_margin",
    "name_of",
    "p_above",
    "p_below",
    "paired",
    "performance_profile",
    "power_of_t",
    "power_of_tost",
    "probability_of_improvement",
    "rate_interval",
    "sd_upper_bound",
    "seeds_for_equivalence",
    "seeds_needed",
    "sign_flip",
    "simple_effects",
    "speed_up",
    "stratified_bootstrap",
    "tost",
    "upper_bound",
]
