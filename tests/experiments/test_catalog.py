"""What ships compares like with like."""

import sys

import pytest
import torch

from experiments import catalog
from experiments.check import build_task, checked_runs, model_arguments
from experiments.config import ConfigError
from tests.experiments import training_runs
from transformer.models import build

NEEDS_AN_EXTRA = {"translation": pytest.mark.slow}  # sacrebleu
SHIPPED = [pytest.param(catalog.get(name), marks=NEEDS_AN_EXTRA.get(name, ()), id=name) for name in catalog.NAMES]


def first_runs(experiment):
    """One run of every variant."""
    return [run for run in checked_runs(experiment) if run.config.seed == experiment.seed_list()[0]]


@pytest.mark.parametrize("experiment", SHIPPED)
def test_every_shipped_experiment_passes_its_own_checks(experiment):
    runs = checked_runs(experiment)
    assert len(runs) == len(experiment.expand()) * len(experiment.seed_list())
    assert len({run.id for run in runs}) == len(runs)


@pytest.mark.parametrize("experiment", SHIPPED)
def test_positions_and_tokens_enter_at_matching_scales(experiment):
    for run in first_runs(experiment):
        model = build(run.config.model, seed=0, **model_arguments(build_task(run.config.task)))
        tokens = next(p for name, p in model.named_parameters() if "tokens" in name or "embedding" in name)
        scaled = tokens.detach().std() * run.config.model.embedding_multiplier()
        positional = next(m for m in model.modules() if hasattr(m, "rotate") and hasattr(m, "embed"))
        zero = torch.zeros(1, 16, run.config.model.d_model)
        added = positional.embed(zero, torch.arange(16)).detach().std()
        assert added == 0 or 0.5 < added / scaled < 2, (run.variant, float(added), float(scaled))


def test_a_metric_whose_package_is_missing_is_told_with_the_way_to_get_it(monkeypatch):
    for module in [name for name in sys.modules if name.split(".")[0] == "sacrebleu"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(ConfigError, match="metric: BLEU and chrF need the package sacrebleu; install it with"):
        checked_runs(catalog.get("translation"))


@pytest.mark.slow  # needs sacrebleu, and about two minutes of one core
def test_a_trained_translator_is_far_better_than_a_copy_of_the_source(tmp_path):
    metrics = training_runs.run(catalog.get("translation").baseline, tmp_path / "a")["metrics"]
    assert metrics["test/chrf"] > metrics["test/copy_chrf"] + 4
    assert metrics["test/bleu"] > 8 * metrics["test/copy_bleu"]


def test_the_default_experiments_cover_every_slot_that_they_can():
    paths = {path for name in catalog.DEFAULT for v in catalog.get(name).expand() for path in v.changes}
    assert {"model.positional", "model.feedforward", "model.norm", "model.placement", "model.scaling", "model.init"} <= paths
