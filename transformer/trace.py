"""One forward pass as a table of its matrix products, as a learner walks it on paper.

    (2, 10, 512) x (512, 512) -> (2, 10, 512)            query of every token
    (2, 8, 10, 64) x (2, 8, 64, 10) -> (2, 8, 10, 10)    scores, in every head
    (2, 8, 10, 10) x (2, 8, 10, 64) -> (2, 8, 10, 64)    weighted sum of values

Nothing is computed: the pass runs on shapes alone (the `meta` device).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from transformer.attention import MultiHeadAttention
from transformer.models import Model
from transformer.slots import Attention
from transformer.stateless import call, places

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Product:
    """One matrix product.

    Attributes:
        where: the module that asked for it, such as `decoder.layers.0.self_attention.query`.
        what: its part in that module: `scores`, `weighted sum`, or `` where the module says it all.
        left, right, out: shapes; `right` of a linear layer is (in, out).
        parameters: weights and biases in it. A tied head shows the embedding's.
        flops: multiplications and additions, 2 per term; blocked scores count, as they are computed.
        fused: whether one kernel did it together with others, without keeping its result.
    """

    where: str
    what: str
    left: Shape
    right: Shape
    out: Shape
    parameters: int
    flops: int
    fused: bool = False


def trace(model: nn.Module, *inputs: Tensor) -> list[Product]:
    """The matrix products of `model(*inputs)`, in order. Only the shapes and dtypes of the inputs matter.

    Args:
        model: any of the three models, on any device; its state stays as it is.
        inputs: what its forward takes; when none are given, 2 rows of 10 tokens.
    """
    with _unpacked(model):
        return run(model, *inputs).products


@dataclass
class Dry:
    """A pass without numbers: its products, and its bytes kept for the backward pass by module."""

    products: list[Product]
    saved_bytes: dict[str, int]


def run(model: nn.Module, *inputs: Tensor) -> Dry:
    """A forward pass on shapes alone."""
    inputs = inputs or cast(Model, model).dry_inputs(2, 10)
    state = {name: on_meta(tensor) for name, tensor in [*model.named_parameters(), *model.named_buffers()]}
    weights = {id(state[name]) for name, _ in model.named_parameters()}
    at = Place(model)
    recorder, saved = _Recorder(at, weights, _fused), _Saved(at, state)
    with at.followed(), recorder, torch.autograd.graph.saved_tensors_hooks(saved.keep, saved.give):
        call(model, places(model), state, tuple(tensor.to("meta") for tensor in inputs))
    return Dry(recorder.products, saved.sizes)


def counted(model: nn.Module, *inputs: Tensor) -> list[Product]:
    """The products of a real pass on the model's device, for where that is cheaper: the first pass on `meta` loads
    torch's compiler, which takes a second or two. The model's state stays as it is."""
    buffers = {name: tensor.clone() for name, tensor in model.named_buffers()}
    at = Place(model)
    recorder = _Recorder(at, {id(parameter) for parameter in model.parameters()}, F.scaled_dot_product_attention)
    with torch.no_grad(), at.followed(), recorder:
        call(model, places(model), buffers, inputs)
    return recorder.products


def on_meta(tensor: Tensor) -> Tensor:
    """The shape of a tensor, without its values."""
    return tensor.detach().to("meta").requires_grad_(tensor.requires_grad)


class Place:
    """Which module is running."""

    def __init__(self, model: nn.Module) -> None:
        self.model, self.stack = model, [("", model)]

    @contextlib.contextmanager
    def followed(self) -> Iterator[None]:
        """Keeps the place up to date during a forward pass."""
        handles = []
        for name, module in self.model.named_modules():
            handles.append(module.register_forward_pre_hook(partial(self._enter, name)))
            handles.append(module.register_forward_hook(self._leave))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    @property
    def path(self) -> str:
        """Dotted path of the running module."""
        return self.stack[-1][0]

    @property
    def module(self) -> nn.Module:
        """The running module."""
        return self.stack[-1][1]

    def _enter(self, name: str, module: nn.Module, inputs: Any) -> None:
        self.stack.append((name, module))

    def _leave(self, module: nn.Module, inputs: Any, output: Any) -> None:
        self.stack.pop()


class _Recorder(TorchFunctionMode):
    """Notes the products among torch's functions as they are called."""

    def __init__(self, at: Place, weights: set[int], attention: Callable[..., Tensor]) -> None:
        super().__init__()
        self.at, self.weights, self.attention, self.products = at, weights, attention, list[Product]()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = (self.attention if func is F.scaled_dot_product_attention else func)(*args, **kwargs)
        describe = PRODUCTS.get(getattr(func, "__name__", ""))
        if describe is not None:
            for left, right, result, terms, fused in describe(out, *args, **kwargs):
                self._note(left, right, result, terms, fused, args)
        return out

    def _note(self, left: Shape, right: Shape, out: Shape, terms: int, fused: bool, args: Any) -> None:
        parameters = sum(a.numel() for a in args if isinstance(a, Tensor) and id(a) in self.weights)
        flops = 2 * math.prod(out) * terms
        self.products.append(Product(self.at.path, self._what(), left, right, out, parameters, flops, fused))

    def _what(self) -> str:
        module = self.at.module
        if not isinstance(module, Attention):
            return ""
        earlier = 0
        for product in reversed(self.products):
            if product.where != self.at.path:
                break
            earlier += 1
        return module.products[earlier] if earlier < len(module.products) else f"product {earlier + 1}"


Described = Iterator[tuple[Shape, Shape, Shape, int, bool]]


def _linear(out: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Described:
    yield tuple(x.shape), (weight.shape[1], weight.shape[0]), tuple(out.shape), weight.shape[1], False


def _matmul(out: Tensor, left: Tensor, right: Tensor, **_: Any) -> Described:
    yield tuple(left.shape), tuple(right.shape), tuple(out.shape), left.shape[-1], False


def _added(out: Tensor, _: Tensor, left: Tensor, right: Tensor, **options: Any) -> Described:
    yield from _matmul(out, left, right)


def _einsum(out: Tensor, equation: str, *operands: Any) -> Described:
    tensors = operands[0] if isinstance(operands[0], list | tuple) else operands
    sources, _, target = equation.replace(" ", "").partition("->")
    sizes = {
        label: size
        for labels, tensor in zip(sources.split(","), tensors, strict=True)
        for label, size in zip(labels.split("...")[-1][::-1], reversed(tensor.shape), strict=False)
    }
    terms = math.prod(size for label, size in sizes.items() if label not in target)
    yield tuple(tensors[0].shape), tuple(tensors[-1].shape), tuple(out.shape), terms, False


def _attention(out: Tensor, q: Tensor, k: Tensor, v: Tensor, *_: Any, **options: Any) -> Described:
    scores = (*q.shape[:-1], k.shape[-2])
    yield tuple(q.shape), (*k.shape[:-2], k.shape[-1], k.shape[-2]), scores, q.shape[-1], True
    yield scores, tuple(v.shape), tuple(out.shape), k.shape[-2], True


PRODUCTS: dict[str, Callable[..., Described]] = {
    "linear": _linear, "matmul": _matmul, "__matmul__": _matmul, "mm": _matmul, "bmm": _matmul,
    "addmm": _added, "baddbmm": _added, "einsum": _einsum, "scaled_dot_product_attention": _attention,
}


def _fused(
    q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0, **rest: Any
) -> Tensor:
    """Fused attention as it is on a real device; on `meta` torch writes it out, and would keep (L, S) weights."""
    if dropout_p > 0 or (attn_mask is not None and attn_mask.requires_grad):  # what the fused kernels cannot do
        return F.scaled_dot_product_attention(q, k, v, attn_mask, dropout_p, **rest)
    return _FusedShape.apply(q, k, v)  # type: ignore[no-untyped-call]


class _FusedShape(torch.autograd.Function):
    """Keeps for the backward pass what the fused kernels keep: inputs, output and one number a query."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        batch, heads, length, _ = q.shape
        out = q.new_empty(batch, length, heads, v.shape[-1]).transpose(1, 2)  # the layout of torch's kernels
        ctx.save_for_backward(q, k, v, out, q.new_empty(q.shape[:-1]))
        return out


class _Saved:
    """Sizes of what autograd keeps for the backward pass, by module; parameters and shared storage count once."""

    def __init__(self, at: Place, state: dict[str, Tensor]) -> None:
        self.at, self.sizes = at, dict[str, int]()
        self._seen = {tensor.untyped_storage()._cdata: tensor for tensor in state.values()}

    def keep(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in self._seen:
            self._seen[storage._cdata] = tensor  # held, so that no other storage gets its address
            self.sizes[self.at.path] = self.sizes.get(self.at.path, 0) + storage.nbytes()
        return tensor

    def give(self, tensor: Tensor) -> Tensor:
        return tensor


@contextlib.contextmanager
def _unpacked(model: nn.Module) -> Iterator[None]:
    """Query, key and value as three products, as on paper; in training they are one."""
    packed = [module for module in model.modules() if isinstance(module, MultiHeadAttention) and module.packed]
    for module in packed:
        module.packed = False
    try:
        yield
    finally:
        for module in packed:
            module.packed = True
