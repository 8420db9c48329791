"""Experiments from the catalog, from files and from the command line."""

import pytest

from experiments import catalog
from experiments.config import ConfigError
from experiments.files import assignment, declare, load
from experiments.strict_yaml import parse, scalar

YAML = """
name: position
question: Which?
baseline:
  model: {positional: rope}
  train: {lr: 1e-3}
vary:
  model.positional: [none, {name: rope, base: 500.0}]
seeds: 2
"""

PYTHON = """
from experiments.experiment import Experiment
anything = Experiment(name="mine", question="Which?", vary={"model.norm": ["none"]})
"""


def write(folder, name, text):
    path = folder / name
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e-3", 1e-3), ("none", "none"), ("no", "no"), ("012", 12), ("1:30", "1:30"), ("null", None), ("true", True), (".5", 0.5)],
)
def test_yaml_words_mean_what_a_reader_expects(text, value):
    assert scalar(text) == value
    assert parse(f"a: {text}").tree == {"a": value}
    assert type(parse(f"a: {text}").tree["a"]) is type(value)


def test_quoted_words_stay_text():
    assert parse("a: '1'").tree == {"a": "1"}


def test_a_duplicate_key_is_refused_with_its_line():
    with pytest.raises(ConfigError, match=r"x.yaml:2: the key 'a' is given twice"):
        parse("a: 1\na: 2", source="x.yaml")


def test_yaml_that_cannot_be_read_says_where():
    with pytest.raises(ConfigError, match=r"x.yaml:2"):
        parse("a: 1\nb: [", source="x.yaml")


def test_a_yaml_file_declares_an_experiment(tmp_path):
    declared = load(write(tmp_path, "e.yaml", YAML))
    assert [v.name for v in declared.experiment.expand()] == ["baseline", "positional=none", "positional=rope(base=500.0)"]
    assert declared.experiment.baseline.train.lr == 1e-3


def test_a_wrong_key_in_yaml_is_named_with_file_and_line(tmp_path):
    path = write(tmp_path, "e.yaml", YAML.replace("train: {lr: 1e-3}", "train: {lrr: 1e-3}"))
    with pytest.raises(ConfigError, match=r"e.yaml:6: unknown key 'baseline.train.lrr'. Did you mean 'baseline.train.lr'"):
        load(path)


def test_a_python_file_declares_one_experiment(tmp_path):
    declared = load(write(tmp_path, "mine.py", PYTHON))
    assert declared.experiment.name == "mine"
    assert declared.imports == (str((tmp_path / "mine.py").resolve()),)


def test_a_python_file_with_two_experiments_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="exactly one Experiment at top level; it defines 2"):
        load(write(tmp_path, "two.py", PYTHON + PYTHON.replace("anything", "other").split("import Experiment")[1]))


def test_a_python_file_that_raises_is_a_clear_error(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot be imported: ZeroDivisionError: division by zero \(bad.py, line 1\)"):
        load(write(tmp_path, "bad.py", "1 / 0"))


def test_an_unknown_experiment_names_the_nearest():
    with pytest.raises(ConfigError, match=r"unknown experiment 'componets'. Did you mean 'components'\?"):
        load("componets")


def test_a_missing_file_is_named():
    with pytest.raises(ConfigError, match="no such experiment file: 'nowhere.yaml'"):
        load("nowhere.yaml")


def test_set_changes_the_baseline_of_every_variant():
    declared = declare("components", sets=["train.steps=7", "model.n_heads=2"])
    assert declared.experiment.baseline.train.steps == 7
    assert declared.experiment.baseline.model.n_heads == 2


def test_an_experiment_can_be_given_on_the_command_line_alone():
    declared = declare(None, vary=["model.positional=none,rope,{name: rope, base: 5.0}"], seeds=3)
    assert [v.name for v in declared.experiment.expand()] == [
        "baseline", "positional=none", "positional=rope", "positional=rope(base=5.0)",
    ]
    assert declared.experiment.seed_list() == [0, 1, 2]


def test_nothing_to_do_is_an_error_that_says_what_to_write():
    with pytest.raises(ConfigError, match="name an experiment, or say what to vary"):
        declare(None)


@pytest.mark.parametrize("text", ["train.steps", "=3", ""])
def test_an_assignment_without_path_or_value_is_refused(text):
    with pytest.raises(ConfigError, match="must be written path=value"):
        assignment(text)


def test_an_unknown_preset_lists_those_there_are():
    with pytest.raises(ConfigError, match="no preset 'quik'. Did you mean 'quick'\\? Known: quick"):
        declare("components", preset="quik")


@pytest.mark.parametrize("name", catalog.NAMES)
def test_every_catalog_entry_carries_its_own_name(name):
    assert catalog.get(name).name == name
    assert catalog.get(name).question.endswith("?")
