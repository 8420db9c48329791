"""A model called with other values in place of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from torch.func import functional_call


def places(model: nn.Module) -> dict[str, str]:
    """Every place that holds a parameter or a buffer -> its name in `named_parameters` or `named_buffers`.

    Tied weights have several places and one name. An embedding that two stacks share is one place: torch's own tying
    visits it twice and then puts the wrong tensor back.
    """
    names = {id(tensor): name for name, tensor in [*model.named_parameters(), *model.named_buffers()]}
    return {
        f"{path}.{own}" if path else own: names[id(tensor)]
        for path, module in model.named_modules()
        for own, tensor in [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]
    }


def call(model: nn.Module, at: Mapping[str, str], values: Mapping[str, Tensor], inputs: tuple[Any, ...]) -> Any:
    """model(*inputs) with `values` by name; what has none keeps its own. at: `places(model)`, found once."""
    given = {place: values[name] for place, name in at.items() if name in values}
    return functional_call(model, given, inputs, tie_weights=False)
