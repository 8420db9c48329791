"""Public weights of GPT-2, LLaMA and T5 as models of ours: given a state dict in Hugging Face's layout, a model that
computes the same logits. Every tensor of the state dict is used, or the call fails.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from transformer.config import ModelConfig
from transformer.models import DecoderLM, EncoderDecoder, Model, assemble
from transformer.spec import Spec

Weights = Mapping[str, Tensor]
BUFFERS = re.compile(r"(\.attn\.(masked_)?bias|rotary_emb\.inv_freq)$")  # fixed tables that old files carry


def gpt2(weights: Weights, *, n_heads: int, eps: float = 1e-5) -> DecoderLM:
    """GPT-2: learned positions, pre-norm, tanh GELU, tied head. Its Conv1D weights are (in, out).

    Args:
        weights: state dict of `GPT2LMHeadModel` or `GPT2Model`.
        n_heads, eps: what the file does not say.

    Raises:
        ValueError: a tensor is missing, too many, or of the wrong shape.
    """
    source = _Source(weights, prefix="transformer.")
    token, place = source.take("wte.weight"), source.take("wpe.weight")
    head = source.take_optional("lm_head.weight")
    config = ModelConfig(
        d_model=token.shape[1], n_layers=source.count(r"h\.(\d+)\."), n_heads=n_heads, max_len=place.shape[0],
        d_ff=source.shape("h.0.mlp.c_fc.weight")[1], tied=head is None or torch.equal(head, token),
        positional=Spec("learned"), feedforward=Spec("gelu", approximate="tanh"), norm=Spec("layernorm", eps=eps),
    )
    ours = {"decoder.embedding.weight": token, "decoder.positional.table": place, "head.weight": _or(head, token)}
    for i in range(config.n_layers):
        theirs, layer = f"h.{i}.", f"decoder.layers.{i}."
        for kind in ("weight", "bias"):
            three = source.take(f"{theirs}attn.c_attn.{kind}").chunk(3, dim=-1)
            for name, part in zip(("query", "key", "value"), three, strict=True):
                ours[f"{layer}self_attention.{name}.{kind}"] = part.t()
            for name, their_name in GPT2_LINEAR.items():
                ours[f"{layer}{name}.{kind}"] = source.take(f"{theirs}{their_name}.{kind}").t()
            for name, their_name in GPT2_NORM.items():
                ours[f"{layer}{name}.norm.{kind}"] = source.take(f"{theirs}{their_name}.{kind}")
    for kind in ("weight", "bias"):
        ours[f"decoder.final_norm.{kind}"] = source.take(f"ln_f.{kind}")
    model = _loaded(config, ours, source, vocab_size=len(token), max_len=len(place))
    assert isinstance(model, DecoderLM)
    return model


GPT2_LINEAR = {
    "self_attention.output": "attn.c_proj", "feedforward.up": "mlp.c_fc", "feedforward.down": "mlp.c_proj",
}
GPT2_NORM = {"join_self": "ln_1", "join_feedforward": "ln_2"}


def llama(
    weights: Weights, *, n_heads: int, max_len: int = 2048, base: float = 10000.0, eps: float = 1e-6
) -> DecoderLM:
    """LLaMA: rotary positions in halves, pre-norm with RMSNorm, SwiGLU, no biases. Shared keys are repeated per head.

    Args:
        weights: state dict of `LlamaForCausalLM`; its heads may have a width of their own.
        n_heads, max_len, base, eps: what the file does not say.

    Raises:
        ValueError: a tensor is missing, too many, or of the wrong shape.
    """
    source = _Source(weights, prefix="model.")
    token, head = source.take("embed_tokens.weight"), source.take_optional("lm_head.weight")
    d_head = source.shape("layers.0.self_attn.q_proj.weight")[0] // n_heads
    config = ModelConfig(
        d_model=token.shape[1], n_layers=source.count(r"layers\.(\d+)\."), n_heads=n_heads, bias=False, max_len=max_len,
        d_head=d_head, d_ff=source.shape("layers.0.mlp.gate_proj.weight")[0],
        tied=head is None or torch.equal(head, token),
        positional=Spec("rope", base=base), feedforward=Spec("swiglu"), norm=Spec("rmsnorm", eps=eps, rounds="gain"),
    )
    ours = {"decoder.embedding.weight": token, "head.weight": _or(head, token)}
    for i in range(config.n_layers):
        for name, their_name in LLAMA.items():
            ours[f"decoder.layers.{i}.{name}.weight"] = source.take(f"layers.{i}.{their_name}.weight")
        for name in ("key", "value"):
            at = f"decoder.layers.{i}.self_attention.{name}.weight"
            ours[at] = _for_every_head(ours[at], n_heads, d_head)
    ours["decoder.final_norm.weight"] = source.take("norm.weight")
    model = _loaded(config, ours, source, vocab_size=len(token), max_len=max_len)
    assert isinstance(model, DecoderLM)
    return model


LLAMA = {
    "self_attention.query": "self_attn.q_proj", "self_attention.key": "self_attn.k_proj",
    "self_attention.value": "self_attn.v_proj", "self_attention.output": "self_attn.o_proj",
    "feedforward.gate": "mlp.gate_proj", "feedforward.up": "mlp.up_proj", "feedforward.down": "mlp.down_proj",
    "join_self.norm": "input_layernorm", "join_feedforward.norm": "post_attention_layernorm",
}


def t5(
    weights: Weights, *, n_heads: int, max_distance: int = 128, max_len: int = 512, eps: float = 1e-6,
    tied: bool | None = None,
) -> EncoderDecoder:
    """T5 (ReLU, tied head on hidden / sqrt(d_model)) and T5 1.1 (tanh GeGLU, a head of its own): unscaled scores,
    bucketed relative positions shared by a stack, pre-norm with RMSNorm, no biases.

    Args:
        weights: state dict of `T5ForConditionalGeneration`.
        n_heads, max_distance, max_len, eps: what the file does not say.
        tied: whether the head is the embedding and the hidden states are scaled; None = it is when the file has no
            other. Files of T5 1.1 without a head, or with a copy of the embedding there, need False.

    Raises:
        ValueError: a tensor is missing, too many, or of the wrong shape, or the two stacks differ in depth.
    """
    source = _Source(weights, prefix="")
    source.check_equal_depth(r"encoder\.block\.(\d+)\.", r"decoder\.block\.(\d+)\.")
    token, head = source.take("shared.weight"), source.take_optional("lm_head.weight")
    for copy in ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight"):
        source.take_optional(copy)
    tied = (head is None or torch.equal(head, token)) if tied is None else tied
    head = None if tied else head
    gated = source.has("encoder.block.0.layer.1.DenseReluDense.wi_0.weight")
    d_ff = source.shape(f"encoder.block.0.layer.1.DenseReluDense.{'wi_0' if gated else 'wi'}.weight")[0]
    buckets = source.shape(T5_BIAS.format(stack="encoder"))[0]
    config = ModelConfig(
        architecture="encoder_decoder", d_model=token.shape[1], n_layers=source.count(r"encoder\.block\.(\d+)\."),
        n_heads=n_heads, d_ff=d_ff, max_len=max_len, bias=False, tied=tied,
        d_head=source.shape("encoder.block.0.layer.0.SelfAttention.q.weight")[0] // n_heads,
        logit_scale="inverse_sqrt_d_model" if tied else 1.0, scaling=Spec("none"),
        norm=Spec("rmsnorm", eps=eps, rounds="gain"),
        positional=Spec("relative", buckets=buckets, max_distance=max_distance),
        feedforward=Spec("geglu", approximate="tanh") if gated else Spec("relu"),
    )
    ours = {"encoder.embedding.weight": token, "decoder.embedding.weight": token, "head.weight": _or(head, token)}
    for stack, parts in T5.items():
        ours[f"{stack}.positional.table"] = source.take(T5_BIAS.format(stack=stack))
        ours[f"{stack}.final_norm.weight"] = source.take(f"{stack}.final_layer_norm.weight")
        for i in range(config.n_layers):
            for name, their_name in {**parts, **_t5_feedforward(len(parts) // 5, gated)}.items():
                ours[f"{stack}.layers.{i}.{name}.weight"] = source.take(f"{stack}.block.{i}.layer.{their_name}.weight")
    model = _loaded(config, ours, source, vocab_size=len(token), max_len=max_len)
    assert isinstance(model, EncoderDecoder)
    return model


T5_BIAS = "{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
T5_SELF = {
    "self_attention.query": "0.SelfAttention.q", "self_attention.key": "0.SelfAttention.k",
    "self_attention.value": "0.SelfAttention.v", "self_attention.output": "0.SelfAttention.o",
    "join_self.norm": "0.layer_norm",
}
T5_CROSS = {
    "cross_attention.query": "1.EncDecAttention.q", "cross_attention.key": "1.EncDecAttention.k",
    "cross_attention.value": "1.EncDecAttention.v", "cross_attention.output": "1.EncDecAttention.o",
    "join_cross.norm": "1.layer_norm",
}
T5 = {"encoder": T5_SELF, "decoder": {**T5_SELF, **T5_CROSS}}


def _t5_feedforward(at: int, gated: bool) -> dict[str, str]:
    """at: how many sublayers come before it."""
    first = {"gate": "wi_0", "up": "wi_1"} if gated else {"up": "wi"}
    named = {f"feedforward.{ours}": f"{at}.DenseReluDense.{theirs}" for ours, theirs in {**first, "down": "wo"}.items()}
    return {**named, "join_feedforward.norm": f"{at}.layer_norm"}


class _Source:
    """A state dict of which every tensor has to be taken once."""

    def __init__(self, weights: Weights, *, prefix: str) -> None:
        self._left = {name.removeprefix(prefix): tensor for name, tensor in weights.items() if not BUFFERS.search(name)}
        self._names = list(self._left)

    def take(self, name: str) -> Tensor:
        if name not in self._left:
            raise ValueError(f"the weights hold no '{name}'; they hold {_some(self._names)}")
        return self._left.pop(name)

    def take_optional(self, name: str) -> Tensor | None:
        return self._left.pop(name, None)

    def has(self, name: str) -> bool:
        return name in self._left

    def shape(self, name: str) -> tuple[int, ...]:
        if name not in self._left:
            raise ValueError(f"the weights hold no '{name}'; they hold {_some(self._names)}")
        return tuple(self._left[name].shape)

    def count(self, pattern: str) -> int:
        """1 + the largest number that the pattern finds in a name."""
        return 1 + max((int(found[1]) for name in self._names if (found := re.match(pattern, name))), default=0)

    def check_equal_depth(self, encoder: str, decoder: str) -> None:
        if self.count(encoder) != self.count(decoder):
            raise ValueError(
                f"the encoder has {self.count(encoder)} layers and the decoder {self.count(decoder)}; "
                "models here have one n_layers for both"
            )

    def check_empty(self) -> None:
        if self._left:
            raise ValueError(f"the model has no place for {_some(self._left)}")


def _loaded(
    config: ModelConfig, ours: Mapping[str, Tensor], source: _Source, *, vocab_size: int, max_len: int
) -> Model:
    source.check_empty()
    with torch.random.fork_rng(devices=[]):
        model = assemble(config, vocab_size, max_len).to(ours["head.weight"].dtype)
    try:
        model.load_state_dict(dict(ours))
    except RuntimeError as error:
        raise ValueError(f"the weights do not fit: {error}") from None
    return model.eval()


def _for_every_head(weight: Tensor, n_heads: int, d_head: int) -> Tensor:
    """(groups K, D) -> (H K, D): each head gets a copy of its group's rows."""
    groups = weight.shape[0] // d_head
    return weight.unflatten(0, (groups, d_head)).repeat_interleave(n_heads // groups, dim=0).flatten(0, 1)


def _or(tensor: Tensor | None, other: Tensor) -> Tensor:
    return other if tensor is None else tensor


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:8]) + (f" and {len(listed) - 8} more" if len(listed) > 8 else "")
