"""No option is accepted and then ignored: flipping it changes the parameters or the output."""

import typing

import pytest
import torch

from tests.contracts.cases import CLASSES, COMPONENTS, config, model, tokens
from transformer import Spec
from transformer.config import SLOTS, ModelConfig
from transformer.slots import REGISTRIES

pytestmark = pytest.mark.filterwarnings("ignore:norm .* leaks across time")
WITH_OPTIONS = [
    (slot, name, option)
    for slot, name in COMPONENTS
    for option in CLASSES[slot, name].__init__.__kwdefaults__ or {}
]
FLIPPED = {
    "architecture": "encoder", "d_model": 20, "n_layers": 3, "n_heads": 4, "d_head": 6, "d_ff": 40, "dropout": 0.4, "bias": False,
    "tied": False, "embedding_scale": "sqrt_d_model", "logit_scale": "inverse_sqrt_d_model", "pooling": "first",
    "positional": Spec("rope"), "attention": Spec("window"), "scaling": Spec("none"), "feedforward": Spec("swiglu"),
    "norm": Spec("rmsnorm"), "placement": Spec("post"), "init": Spec("xavier"),
}


def another(hint, default):
    if typing.get_origin(hint) is typing.Literal:
        return next(value for value in typing.get_args(hint) if value != default)
    return default * 0.5 if isinstance(default, float) else max(1, default // 2)


def fingerprint(made):
    """Parameters, and outputs in training and afterwards in eval, at a length that reaches beyond every window; last
    in bf16 with gains that are not 1, where the order of rounding shows."""
    x = tokens(length=40)
    with torch.random.fork_rng():
        torch.random.manual_seed(0)
        trained = made.train()(x)
    seen = [*(value.clone() for value in made.state_dict().values()), trained, made.eval()(x)]
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(torch.linspace(0.5, 1.5, parameter.shape[-1]))
    return [*seen, made.bfloat16()(x)]


def differ(a, b):
    return len(a) != len(b) or any(x.shape != y.shape or not torch.equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("slot,name,option", WITH_OPTIONS, ids=lambda part: part)
def test_every_option_of_a_component_changes_something(slot, name, option):
    cls = REGISTRIES[slot].entry(name).cls
    default = REGISTRIES[slot].options(name)[option].default
    value = another(typing.get_type_hints(cls.__init__).get(option), default)
    plain, flipped = (model(config(**{"init": "xavier", slot: s})) for s in (Spec(name), Spec(name, **{option: value})))
    assert differ(fingerprint(plain), fingerprint(flipped)), f"{option}={value} does nothing"


@pytest.mark.parametrize("field", [name for name in ModelConfig.model_fields if name != "max_len"])
def test_every_field_of_a_model_changes_something(field):
    base = {"architecture": "encoder"} if field == "pooling" else {}
    assert set(FLIPPED) | {"max_len"} == set(ModelConfig.model_fields)
    assert differ(fingerprint(model(config(**base))), fingerprint(model(config(**base, **{field: FLIPPED[field]}))))


def test_max_len_decides_what_is_refused():
    with pytest.raises(ValueError, match="11 positions are more than max_len=10"):
        model(config(max_len=10))(tokens(length=11))


def test_every_slot_is_a_field_of_the_model():
    assert set(SLOTS) <= set(ModelConfig.model_fields)
