"""Learning-rate schedules and decays of teacher forcing, against published numbers and their own rules."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from experiments.training.schedules import SAMPLING, SCHEDULES, Horizon
from transformer.spec import Spec

GOLDEN = np.load(Path(__file__).parents[1] / "reference" / "golden" / "loss_sched.npz")
TEN_OF_FIFTY = Horizon(peak=1.0, warmup=10, steps=50, d_model=512)


def rates(spec: Spec, horizon: Horizon, steps: int) -> list[float]:
    schedule = SCHEDULES.build(spec, horizon)
    return [schedule.lr(step) for step in range(1, steps + 1)]


@pytest.mark.parametrize("case, spec, last", [
    ("cosine", Spec("cosine", final=0.0), 50),
    ("cosine_min", Spec("cosine", final=0.1), 50),
    ("linear", Spec("linear"), 59),
    ("inverse_sqrt", Spec("inverse_sqrt"), 59),
])
def test_step_s_uses_the_rate_that_a_schedule_counting_from_zero_has_at_s(case: str, spec: Spec, last: int) -> None:
    assert rates(spec, TEN_OF_FIFTY, last) == pytest.approx(GOLDEN[f"schedules/{case}"][1 : last + 1], abs=1e-12)


def test_noam_with_a_factor_is_the_rule_of_the_paper_whatever_train_lr_says() -> None:
    ours = rates(Spec("noam", factor=1.0), Horizon(peak=123.0, warmup=10, steps=50, d_model=512), 60)
    assert ours == pytest.approx(GOLDEN["schedules/noam_d512_w10"], abs=1e-12)


def test_noam_without_a_factor_peaks_at_train_lr_at_the_end_of_warmup() -> None:
    ours = rates(Spec("noam"), Horizon(peak=0.01, warmup=10, steps=50), 50)
    assert max(ours) == pytest.approx(0.01)
    assert ours.index(max(ours)) == 9


@pytest.mark.parametrize("name", SCHEDULES.names())
def test_the_first_step_has_a_rate_above_zero_with_and_without_warmup(name: str) -> None:
    for warmup in (0, 1, 7):
        assert rates(Spec(name), Horizon(peak=1.0, warmup=warmup, steps=20), 1)[0] > 0


@pytest.mark.parametrize("name", SCHEDULES.names())
def test_the_peak_falls_on_the_last_warmup_step_and_the_rate_never_rises_after_it(name: str) -> None:
    ours = rates(Spec(name), Horizon(peak=0.3, warmup=7, steps=20), 60)
    assert ours[6] == pytest.approx(0.3)
    assert ours[:7] == sorted(ours[:7])
    assert ours[6:] == sorted(ours[6:], reverse=True)


@pytest.mark.parametrize("spec, floor", [(Spec("cosine", final=0.1), 0.1), (Spec("linear", final=0.2), 0.2)])
def test_a_decay_ends_at_its_final_share_and_stays_there(spec: Spec, floor: float) -> None:
    ours = rates(spec, TEN_OF_FIFTY, 80)
    assert ours[49:] == pytest.approx([floor] * 31)


def test_warmup_over_the_whole_run_is_allowed() -> None:
    assert rates(Spec("cosine"), Horizon(peak=1.0, warmup=4, steps=4), 4) == pytest.approx([0.25, 0.5, 0.75, 1.0])


@pytest.mark.parametrize("spec, sentence", [
    (Spec("cosine", final=1.5), r"schedule 'cosine': final=1.5 must be in \[0, 1\]"),
    (Spec("noam", factor=-1.0), "schedule 'noam': factor=-1.0 must be above 0; leave it out to peak at train.lr"),
    (Spec("inverse_sqrt", timescale=0), "schedule 'inverse_sqrt': timescale=0 must be at least 1 step"),
])
def test_an_option_out_of_range_is_refused_by_name(spec: Spec, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        SCHEDULES.build(spec, TEN_OF_FIFTY)


@pytest.mark.parametrize("name", SAMPLING.names())
def test_teacher_forcing_starts_near_one_and_only_decays(name: str) -> None:
    sampling = SAMPLING.build(Spec(name), 1000)
    chances = [sampling.teacher_forcing(i) for i in range(3000)]
    assert chances[0] > 0.98
    assert chances == sorted(chances, reverse=True)
    assert 0 <= chances[-1] < 0.02


def test_the_three_decays_are_their_formulas() -> None:
    assert SAMPLING.build(Spec("linear", start=0.9, end=0.1), 100).teacher_forcing(50) == pytest.approx(0.5)
    assert SAMPLING.build(Spec("exponential", k=0.9), 100).teacher_forcing(3) == pytest.approx(0.9**3)
    inverse = SAMPLING.build(Spec("inverse_sigmoid", k=20.0), 100)
    assert inverse.teacher_forcing(40) == pytest.approx(20 / (20 + math.exp(2)))
    assert inverse.teacher_forcing(10**6) == pytest.approx(0.0, abs=1e-200)


def test_schedules_are_known_without_importing_torch() -> None:
    code = "import sys, experiments.training.schedules as s; s.SCHEDULES.names(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
