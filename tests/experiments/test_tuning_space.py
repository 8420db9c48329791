"""Ranges in Python and YAML, default ranges, conditions, and what is refused before anything runs."""

import pytest

from experiments.config import ConfigError, RunConfig, Spec
from experiments.experiment import Experiment
from experiments.files import load
from experiments.tuning.check import spaces
from experiments.tuning.defaults import space_of
from experiments.tuning.dimensions import DEFAULT, Choice, Dimension, IntRange, LogRange, Range
from experiments.tuning.space import Part, Space, holds
from transformer.slots import REGISTRIES

FORMS = [
    ({"log": [3e-4, 3e-2]}, LogRange(3e-4, 3e-2)),
    ({"range": [0.0, 0.3], "points": 4}, Range(0.0, 0.3, points=4)),
    ({"int": [64, 512], "log": True}, IntRange(64, 512, log=True)),
    ({"int": [2, 8], "step": 2, "when": "model.norm=none"}, IntRange(2, 8, step=2, when="model.norm=none")),
    ({"choice": ["cosine", "linear"]}, Choice("cosine", "linear")),
    ("default", DEFAULT),
]


@pytest.mark.parametrize("plain, dimension", FORMS)
def test_every_dimension_has_a_plain_form(plain, dimension):
    assert Dimension.parse(plain) == dimension
    assert dimension.to_dict() == plain
    assert Dimension.parse(dimension) is dimension


def test_a_list_is_a_choice_of_values_or_components():
    dimension = Dimension.parse(["learned", Spec("rope", base=500.0)])
    assert dimension == Choice("learned", {"name": "rope", "base": 500.0})
    assert dimension.values() == ["learned", "rope(base=500.0)"]
    assert dimension.value("rope(base=500.0)") == {"name": "rope", "base": 500.0}


@pytest.mark.parametrize("plain, text", [
    ({"log": [0, 1]}, "log [0, 1]: a logarithmic range needs positive numbers"),
    ({"log": [1, 0.1]}, "log [1, 0.1]: the first number must be less than the second"),
    ({"range": ["a", 1]}, "range low='a' is not a number"),
    ({"range": [0, True]}, "range high=True is not a number"),
    ({"int": [1, 2.5]}, "int high=2.5 is not a whole number"),
    ({"int": [1, 8], "step": 2}, "int [1, 8]: step=2 does not lead from one end to the other"),
    ({"log": [1, 2], "point": 3}, "unknown option of 'log' 'point'. Did you mean 'points'? Known: points, when"),
    ({"choice": ["a", "a"]}, "choice [a, a] must name at least 2 different values"),
    ({"log": 3}, "log=3 must be a list of two numbers"),
    ({"lg": [1, 2]}, "{'lg': [1, 2]} is no range: write {log: [3e-4, 3e-2]}"),
    (3, "3 is no range: write {log: [3e-4, 3e-2]}"),
])  # fmt: skip
def test_a_wrong_range_is_told_with_its_rule(plain, text):
    with pytest.raises(ValueError) as error:
        Dimension.parse(plain)
    assert text in str(error.value)


def test_a_sampled_number_is_rounded_and_stays_in_its_range():
    assert LogRange(3e-4, 3e-2).value(0.00312345678) == 0.00312346
    assert LogRange(3e-4, 0.029999999).value(0.029999999) == 0.029999999
    assert Range(0.0, 0.3, points=4).value(0.17) == 0.2
    assert LogRange(1e-4, 1e-2, points=3).values() == [1e-4, 1e-3, 1e-2]


def test_the_ends_of_a_range_are_its_edges():
    dimension = LogRange(1e-4, 1e-2)
    assert [dimension.edge(lr) for lr in (1e-4, 1.2e-4, 1e-3, 9e-3)] == ["lower", "lower", None, "upper"]
    assert [IntRange(1, 4).edge(n) for n in (1, 2, 4)] == ["lower", None, "upper"]
    assert Choice("a", "b").edge("a") is None


def test_an_experiment_keeps_its_space_through_plain_data():
    declared = Experiment(name="e", question="Which?", space={"train.lr": "default", "model.norm": ["none", "rmsnorm"]})
    assert Experiment(**declared.to_dict()) == declared
    assert declared.to_dict()["space"]["model.norm"] == {"choice": ["none", "rmsnorm"]}


def test_a_space_is_read_from_yaml(tmp_path):
    (tmp_path / "e.yaml").write_text(
        "name: e\nquestion: Which?\nprotocol: {name: search, trials: 5}\nbudget: tokens\nspace:\n"
        "  train.lr: {log: [3e-4, 3e-2]}\n  model.norm: [layernorm, none]\n  train.weight_decay: default\n"
    )
    declared = load(str(tmp_path / "e.yaml")).experiment
    assert declared.space["train.lr"] == LogRange(3e-4, 3e-2)
    assert declared.space["train.weight_decay"] is DEFAULT
    assert declared.protocol == Spec("search", trials=5)
    assert declared.budget == Spec("tokens")


@pytest.mark.parametrize("fields, text", [
    ({"space": {"train.lrr": {"log": [1, 2]}}}, "space.train.lrr: unknown key 'train.lrr'. Did you mean 'train.lr'?"),
    ({"space": {"train.lrr": "default"}}, "space.train.lrr: declares no default range"),
    ({"space": {"train.steps": {"range": [1, 2]}}}, "space.train.steps: 1.0 must be a whole number"),
    ({"space": {"model.d_model": [64, 65]}}, "d_model=65 is not divisible by n_heads=4; the nearest d_model that is: 64"),
    ({"space": {"seed": {"int": [0, 4]}}}, "space.seed: a seed is not tuned"),
    ({"space": {"train.lr": {"log": [1, 2], "when": "train.steps"}}}, "condition 'train.steps' must be written path=value"),
    ({"space": {"model.positional.base": {"log": [1, 2], "when": "model.positional=rope"}, "model.positional": ["rope", "none"]}},
     "its condition speaks of 'model.positional', which must be declared before it"),
    ({"protocol": "lrgrid"}, "protocol: unknown protocol 'lrgrid'. Did you mean 'lr_grid'? Known: fixed, lr_grid, search"),
    ({"protocol": Spec("lr_grid", points=2.5)}, "protocol 'lr_grid': points=2.5 must be a whole number"),
    ({"budget": "flop"}, "budget: unknown budget 'flop'. Did you mean 'flops'? Known: flops, seconds, steps, tokens"),
])  # fmt: skip
def test_an_experiment_with_a_wrong_space_protocol_or_budget_is_refused(fields, text):
    with pytest.raises(ConfigError) as error:
        Experiment(name="e", question="Which?", **fields)
    assert text in str(error.value)


def test_a_condition_names_a_component_with_or_without_its_options():
    config = RunConfig().replace({"model.positional": Spec("rope", base=5.0)})
    assert holds(config, "model.positional=rope")
    assert holds(config, "model.positional = rope(base=5.0)")
    assert not holds(config, "model.positional=alibi")
    assert holds(config, "train.batch_size=32")


def test_the_cells_of_a_finite_space_follow_its_conditions():
    base = Choice(10.0, 100.0, 1000.0, when="model.positional=rope")
    parts = (Part("model.positional", Choice("rope", "alibi")), Part("model.positional.base", base))
    cells = Space(RunConfig(), parts).cells()
    assert len(cells) == 4
    assert {"model.positional": "alibi"} in cells
    assert Space(RunConfig(), (Part("train.lr", LogRange(1e-3, 1e-2)),)).cells() is None


def test_default_ranges_come_from_the_field_and_from_the_component_that_a_variant_has():
    declared = {"train.lr": DEFAULT, "model.positional.base": DEFAULT}
    plain = space_of(declared, RunConfig())
    assert [part.path for part in plain.parts] == ["train.lr"]
    assert plain.parts[0].dimension == LogRange(3e-4, 3e-2)
    with_rope = space_of(declared, RunConfig().replace({"model.positional": "rope"}))
    assert [part.path for part in with_rope.parts] == ["train.lr", "model.positional.base"]


def test_default_ranges_of_components_that_the_space_chooses_are_conditional():
    declared = {"model.positional": Choice("rope", "alibi", "none"), "model.positional.base": DEFAULT,
                "model.positional.max_bias": DEFAULT}  # fmt: skip
    space = space_of(declared, RunConfig())
    assert [(p.path, p.dimension.when) for p in space.parts[1:]] == [
        ("model.positional.base", "model.positional=rope"), ("model.positional.max_bias", "model.positional=alibi"),
    ]  # fmt: skip


def test_without_a_space_the_learning_rate_is_tuned():
    assert [part.path for part in space_of({}, RunConfig()).parts] == ["train.lr"]


@pytest.mark.parametrize("slot, name, option", [
    (slot, name, option) for slot, registry in REGISTRIES.items() for name in registry.names()
    for option in getattr(registry.entry(name).cls, "ranges", {})
])  # fmt: skip
def test_every_range_that_a_component_declares_fits_its_option(slot, name, option):
    config = RunConfig(task=Spec("recall")).replace({f"model.{slot}": name})
    (part,) = space_of({f"model.{slot}.{option}": DEFAULT}, config).parts
    for value in part.dimension.extremes():
        assert config.replace({part.path: value}).problems() == []


def checked(**fields):
    experiment = Experiment(name="e", question="Which?", baseline=RunConfig(task=Spec("recall")), **fields)
    return spaces(experiment, {variant.name: config for variant, config in experiment.configured()})


@pytest.mark.parametrize("fields, text", [
    ({"space": {"train.lr": {"log": [1e-3, 1e-2]}}, "vary": {"train.lr": [1e-2]}},
     "variant 'lr=0.01': space.train.lr: is tuned, but the variant sets it"),
    ({"space": {"model.positional.base": {"log": [10.0, 1e4]}}}, "unknown option"),
    ({"space": {"model.positional.base": {"log": [10.0, 1e4], "when": "model.positional=rope"}}},
     "its condition 'model.positional=rope' holds for no variant"),
    ({"space": {"model.positional.base": "default"}}, "nothing in it exists for this variant; tune something that every variant"),
    ({"space": {"train.steps": [5, 10]}, "budget": "tokens"}, "space.train.steps: is tuned, but budget 'tokens' derives it"),
    ({"space": {"model.d_ff": [64, 128]}, "match": "parameters"}, "space.model.d_ff: is tuned, but `match: parameters` derives it"),
    ({"space": {"train.batch_size": [8, 16]}, "budget": Spec("seconds", rates={"baseline": 0.1})},
     "space.train.batch_size: may change how long a step takes"),
    ({"space": {"model.attention": ["softmax", "linear"]}, "vary": {"model.positional": ["alibi"]}},
     "positional 'alibi' adds a bias to the attention scores"),
])  # fmt: skip
def test_a_space_is_checked_against_every_variant(fields, text):
    with pytest.raises(ConfigError) as error:
        checked(**fields)
    assert text in str(error.value)


def test_a_condition_that_one_variant_fulfils_exists_for_that_variant_alone():
    space = {"train.lr": "default", "model.positional.base": {"log": [10.0, 1e4], "when": "model.positional=rope"}}
    found = checked(space=space, vary={"model.positional": ["rope"]})
    drawn = {name: one.walk(lambda path, dimension: dimension.extremes()[0]) for name, one in found.items()}
    assert drawn == {"baseline": {"train.lr": 3e-4}, "positional=rope": {"train.lr": 3e-4, "model.positional.base": 10.0}}
