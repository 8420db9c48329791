"""What an experiment expands to, and what it refuses."""

import pytest

from experiments.config import ConfigError, RunConfig, Spec
from experiments.experiment import Experiment, slug


def make(**fields):
    return Experiment(**{"name": "e", "question": "Which?", **fields})


def names(experiment):
    return [variant.name for variant in experiment.expand()]


def test_vary_changes_one_thing_at_a_time_and_the_baseline_stands_first():
    experiment = make(vary={"model.positional": ["learned", "rope", "none"], "model.norm": ["rmsnorm"]})
    assert names(experiment) == ["baseline", "positional=rope", "positional=none", "norm=rmsnorm"]


def test_a_value_equal_to_the_baseline_is_the_baseline():
    assert names(make(vary={"train.steps": [500, 200]})) == ["baseline", "steps=200"]


def test_grid_is_every_combination():
    experiment = make(grid={"model.norm": ["layernorm", "rmsnorm"], "model.placement": ["pre", "post"]})
    assert names(experiment) == ["baseline", "placement=post", "norm=rmsnorm", "norm=rmsnorm, placement=post"]


def test_groups_are_the_union_of_their_grids_without_repeats():
    group = {"model.norm": ["rmsnorm"], "model.placement": ["post"]}
    experiment = make(groups=[group, {**group, "model.placement": ["pre", "post"]}])
    assert names(experiment) == ["baseline", "norm=rmsnorm, placement=post", "norm=rmsnorm"]


def test_when_adds_settings_only_under_its_condition():
    experiment = make(
        vary={"model.positional": ["none", "rope"]}, when={"model.positional=rope": {"model.positional.base": [10.0, 20.0]}}
    )
    assert names(experiment) == ["baseline", "positional=none", "positional=rope(base=10.0)", "positional=rope(base=20.0)"]


def test_two_spellings_of_one_change_are_one_variant():
    as_spec = make(vary={"model.positional": [Spec("rope", base=10.0)]})
    as_path = make(grid={"model.positional": ["rope"], "model.positional.base": [10.0]})
    assert as_spec.expand() == as_path.expand()


def test_named_variants_keep_their_names():
    assert names(make(variants={"llama": {"model.norm": "rmsnorm", "model.positional": "rope"}})) == ["baseline", "llama"]


def test_every_wrong_path_and_value_is_reported_at_once():
    with pytest.raises(ConfigError) as error:
        make(vary={"model.d_model": [65], "train.lrr": [1]}, baseline=RunConfig())
    text = str(error.value)
    assert "model: d_model=65 is not divisible by n_heads=4; the nearest d_model that is: 64" in text
    assert "unknown key 'train.lrr'. Did you mean 'train.lr'?" in text


def test_a_misspelt_field_names_the_right_one():
    with pytest.raises(ConfigError, match=r"unknown key 'sead'. Did you mean 'seeds'\?"):
        make(sead=3)


@pytest.mark.parametrize("seeds", [0, [], [1, 1], [-1]])
def test_seeds_that_cannot_be_used_are_refused(seeds):
    with pytest.raises(ConfigError, match="seeds="):
        make(seeds=seeds)


@pytest.mark.parametrize("name", ["", "a/b", "..", "x" * 65])
def test_a_name_that_is_no_folder_name_is_refused(name):
    with pytest.raises(ConfigError, match="must be 1 to 64"):
        make(name=name)


def test_an_empty_list_of_values_is_refused():
    with pytest.raises(ConfigError, match=r"model.norm: has no values to try"):
        make(vary={"model.norm": []})


def test_long_variant_names_become_short_distinct_paths():
    long = [f"{'a=1, ' * 40}b={i}" for i in range(3)]
    slugs = [slug(text) for text in long]
    assert len(set(slugs)) == 3
    assert max(len(s.encode()) for s in slugs) <= 60


def test_presets_are_changes_to_the_experiment():
    experiment = make(presets={"quick": {"seeds": 2, "baseline.train.steps": 7}})
    quick = experiment.replace(experiment.presets["quick"])
    assert (quick.seeds, quick.baseline.train.steps) == (2, 7)


def test_an_experiment_survives_the_trip_through_plain_data():
    experiment = make(vary={"model.positional": [Spec("rope", base=10.0), "none"]}, seeds=[3, 5])
    assert Experiment(**experiment.to_dict()).expand() == experiment.expand()
