"""Configs are strict, frozen, and changed by dotted path."""

import pickle

import pytest

from experiments.config import ConfigError, ModelConfig, RunConfig, Spec, TrainConfig, digest


def test_unknown_keys_are_refused_with_their_path_and_the_nearest_key():
    with pytest.raises(ConfigError, match=r"unknown key 'model.d_modl'. Did you mean 'model.d_model'\?"):
        RunConfig(model={"d_modl": 3})


def test_all_errors_come_at_once():
    with pytest.raises(ConfigError) as error:
        RunConfig(model={"d_modl": 3, "n_layers": "2"}, train={"stepz": 1, "lr": -1.0})
    assert len(error.value.problems) == 4


@pytest.mark.parametrize(
    ("path", "value"), [("model.n_heads", "4"), ("train.steps", 1.5), ("train.lr", float("nan")), ("model.bias", 1)]
)
def test_wrong_types_are_refused_rather_than_converted(path, value):
    with pytest.raises(ConfigError, match=path):
        RunConfig().replace({path: value})


def test_a_config_cannot_be_changed_in_place():
    with pytest.raises(ValueError, match="frozen"):
        RunConfig().seed = 3


def test_replace_changes_only_what_is_named():
    before = RunConfig()
    after = before.replace({"train.steps": 7, "model.positional": "rope", "model.positional.base": 500.0})
    assert after.train.steps == 7
    assert after.model.positional == Spec("rope", base=500.0)
    assert after.replace({"train.steps": before.train.steps, "model.positional": before.model.positional}) == before


def test_a_new_component_does_not_inherit_options_of_the_old_one():
    config = RunConfig(model=ModelConfig(positional=Spec("rope", base=500.0)))
    assert config.replace({"model.positional": "alibi"}).model.positional == Spec("alibi")


def test_a_path_into_nowhere_is_refused():
    with pytest.raises(ConfigError, match="unknown key 'modle.norm'. Did you mean 'model'"):
        RunConfig().replace({"modle.norm": "none"})


def test_warmup_is_steps_or_a_share():
    assert TrainConfig(steps=200, warmup=0.1).warmup_steps() == 20
    assert TrainConfig(steps=200, warmup=7).warmup_steps() == 7
    with pytest.raises(ConfigError, match="between 0 and steps=200"):
        TrainConfig(steps=200, warmup=300)


def test_configs_travel_to_other_processes():
    config = RunConfig(model=ModelConfig(positional=Spec("rope", base=500.0)))
    assert pickle.loads(pickle.dumps(config)) == config


def test_the_digest_ignores_the_order_of_keys_and_sees_every_value():
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert digest({"a": 1, "b": 2}) != digest({"a": 1, "b": 2.5})


def text_at(path):
    return RunConfig(task=Spec("text", path=str(path)))


def test_identity_follows_the_content_of_a_file_and_not_its_path(tmp_path):
    for name, text in (("a.txt", "abcd " * 2000), ("b.txt", "abcd " * 2000), ("c.txt", "abce " * 2000)):
        (tmp_path / name).write_text(text)
    a, b, c = (digest(text_at(tmp_path / name).identity()) for name in ("a.txt", "b.txt", "c.txt"))
    assert a == b
    assert a != c


CHANGES = {
    "model.d_model": 128, "model.n_layers": 3, "model.n_heads": 2, "model.d_head": 6, "model.d_ff": 100, "model.max_len": 99,
    "model.dropout": 0.1, "model.bias": False, "model.tied": False, "model.embedding_scale": 2.0,
    "model.positional": "rope", "model.attention": {"name": "window", "window": 3}, "model.scaling": "none",
    "model.feedforward": "relu", "model.norm": "rmsnorm", "model.placement": "post", "model.init": "xavier",
    "model.architecture": "encoder", "model.pooling": "first", "model.logit_scale": 0.5, "task": {"name": "text", "context": 32},
    "train.steps": 501, "train.batch_size": 31, "train.lr": 0.004, "train.schedule": "linear", "train.warmup": 3,
    "train.weight_decay": 0.2, "train.beta1": 0.8, "train.beta2": 0.9, "train.clip": None, "train.eval_every": 7,
    "train.patience": 3, "train.accumulate": 2, "train.precision": "bf16", "train.label_smoothing": 0.1,
    "train.checkpoint_activations": True, "train.scheduled_sampling": "linear", "train.overfit_one_batch": True,
    "seed": 1,
}


def fields(config, prefix=""):
    for name, value in config:
        yield from fields(value, f"{name}.") if name in ("model", "train") else [f"{prefix}{name}"]


@pytest.mark.parametrize("path", list(fields(RunConfig())))
def test_every_field_that_can_change_a_number_changes_the_identity(path):
    before = RunConfig()
    assert digest(before.replace({path: CHANGES[path]}).identity()) != digest(before.identity())


def test_what_is_written_out_equals_what_is_left_to_its_default():
    spelt_out = RunConfig(train=TrainConfig(warmup=50), model=ModelConfig(d_ff=256, d_head=16, positional=Spec("learned", std=0.02)))
    assert digest(spelt_out.identity()) == digest(RunConfig().identity())
