"""The same language model from several libraries, and the same optimiser step for each of them.

Decoder, pre-norm, GELU, learned positions, tied head, no dropout; LLaMA keeps its own parts (RMSNorm, rotary, SwiGLU at
8/3 of the width, so about as many parameters). B batch, L length, V vocabulary.
"""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from experiments.training.memory import Kept, peak_memory

VOCABULARY = 256


@dataclass(frozen=True)
class Size:
    """Sizes of a model and of its batch."""

    d_model: int
    n_layers: int
    n_heads: int
    length: int
    batch: int

    def __str__(self) -> str:
        return f"{self.n_layers} x {self.d_model}, {self.n_heads} heads, {self.batch} x {self.length} tokens"


class Plain(nn.Module):
    """A GPT as one writes it by hand: one file, fused attention, packed projections."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        d = size.d_model
        self.heads = size.n_heads
        self.tokens, self.positions = nn.Embedding(VOCABULARY, d), nn.Embedding(size.length, d)
        self.layers = nn.ModuleList(
            nn.ModuleDict({
                "norm1": nn.LayerNorm(d), "qkv": nn.Linear(d, 3 * d), "out": nn.Linear(d, d),
                "norm2": nn.LayerNorm(d), "up": nn.Linear(d, 4 * d), "down": nn.Linear(4 * d, d),
            })
            for _ in range(size.n_layers)
        )
        self.norm = nn.LayerNorm(d)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.positions.weight
        for layer in self.layers:
            packed = layer["qkv"](layer["norm1"](x)).unflatten(-1, (3, self.heads, -1))
            q, k, v = packed.permute(2, 0, 3, 1, 4).unbind(0)
            attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + layer["out"](attended.transpose(1, 2).flatten(2))
            x = x + layer["down"](F.gelu(layer["up"](layer["norm2"](x))))
        return F.linear(self.norm(x), self.tokens.weight)


class NanoBlock(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x)); every projection of the attention's input is one Linear."""

    def __init__(self, size: Size, bias: bool) -> None:
        super().__init__()
        d = size.d_model
        self.heads = size.n_heads
        self.norm_attention, self.norm_mlp = nn.LayerNorm(d, bias=bias), nn.LayerNorm(d, bias=bias)
        self.joint, self.merge = nn.Linear(d, 3 * d, bias=bias), nn.Linear(d, d, bias=bias)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d, bias=bias), nn.GELU(), nn.Linear(4 * d, d, bias=bias))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.joint(self.norm_attention(x)).split(x.shape[-1], dim=-1)
        )
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.merge(attended.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm_mlp(x))


class NanoStyle(nn.Module):
    """The architecture of nanoGPT from its description: GPT-2 with a joint projection, a tied head, biases or none."""

    def __init__(self, size: Size, bias: bool = True) -> None:
        super().__init__()
        d = size.d_model
        self.tokens, self.positions = nn.Embedding(VOCABULARY, d), nn.Embedding(size.length, d)
        self.blocks = nn.Sequential(*(NanoBlock(size, bias) for _ in range(size.n_layers)))
        self.norm = nn.LayerNorm(d, bias=bias)
        self.head = nn.Linear(d, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, ids: Tensor) -> Tensor:
        places = torch.arange(ids.shape[1], device=ids.device)
        logits: Tensor = self.head(self.norm(self.blocks(self.tokens(ids) + self.positions(places))))
        return logits


class TorchEncoder(nn.Module):
    """torch.nn.TransformerEncoder with a causal mask, between an embedding and a tied head."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        d = size.d_model
        self.tokens, self.positions = nn.Embedding(VOCABULARY, d), nn.Embedding(size.length, d)
        layer = nn.TransformerEncoderLayer(
            d, size.n_heads, 4 * d, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.stack = nn.TransformerEncoder(layer, size.n_layers, norm=nn.LayerNorm(d), enable_nested_tensor=False)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(size.length))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.stack(self.tokens(ids) + self.positions.weight, mask=self.mask, is_causal=True)
        return F.linear(x, self.tokens.weight)


class Logits(nn.Module):
    """A Hugging Face model that gives logits alone."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, ids: Tensor) -> Tensor:
        logits: Tensor = self.inner(input_ids=ids, use_cache=False).logits
        return logits


def ours(size: Size) -> nn.Module:
    """The suite's own model with its default components."""
    from transformer.config import ModelConfig
    from transformer.models import build

    config = ModelConfig(d_model=size.d_model, n_layers=size.n_layers, n_heads=size.n_heads)
    return build(config, vocab_size=VOCABULARY, max_len=size.length, seed=0)


def x_transformers(size: Size) -> nn.Module:
    """x-transformers' TransformerWrapper with fused attention."""
    from x_transformers import Decoder, TransformerWrapper

    layers = Decoder(
        dim=size.d_model, depth=size.n_layers, heads=size.n_heads, attn_dim_head=size.d_model // size.n_heads,
        attn_flash=True,
    )
    return TransformerWrapper(num_tokens=VOCABULARY, max_seq_len=size.length, attn_layers=layers, tie_embedding=True)


def gpt2(size: Size) -> nn.Module:
    """Hugging Face GPT-2 with torch's fused attention."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=VOCABULARY, n_positions=size.length, n_embd=size.d_model, n_layer=size.n_layers,
        n_head=size.n_heads, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, attn_implementation="sdpa",
        bos_token_id=0, eos_token_id=0,
    )
    return Logits(GPT2LMHeadModel(config))


def llama(size: Size) -> nn.Module:
    """Hugging Face LLaMA with torch's fused attention and a tied head."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCABULARY, max_position_embeddings=size.length, hidden_size=size.d_model,
        intermediate_size=round(8 / 3 * size.d_model / 8) * 8, num_hidden_layers=size.n_layers,
        num_attention_heads=size.n_heads, tie_word_embeddings=True, attn_implementation="sdpa",
        bos_token_id=0, eos_token_id=0,
    )
    return Logits(LlamaForCausalLM(config))


LIBRARIES: dict[str, tuple[Callable[[Size], nn.Module], str]] = {
    "this suite": (ours, "torch"), "plain loop": (Plain, "torch"), "nanoGPT-style loop": (NanoStyle, "torch"),
    "torch.nn.TransformerEncoder": (TorchEncoder, "torch"), "x-transformers": (x_transformers, "x_transformers"),
    "HF GPT-2": (gpt2, "transformers"), "HF LLaMA": (llama, "transformers"),
}


def installed() -> tuple[list[str], list[str]]:
    """Names of the libraries that are here, and those that are not."""
    here = [name for name, (_, module) in LIBRARIES.items() if importlib.util.find_spec(module) is not None]
    return here, [name for name in LIBRARIES if name not in here]


class Step:
    """Forward, loss, backward, clip, fused AdamW on random tokens; in bf16 by autocast on a GPU."""

    def __init__(self, name: str, size: Size, device: str = "cpu") -> None:
        self.device = device
        self.model = LIBRARIES[name][0](size).to(device).train()
        self.optimiser = torch.optim.AdamW(self.model.parameters(), lr=1e-4, betas=(0.9, 0.95), fused=True)
        rng = torch.Generator().manual_seed(0)
        self.ids = torch.randint(VOCABULARY, (size.batch, size.length + 1), generator=rng).to(device)

    def __call__(self) -> None:
        """One step."""
        self.optimiser.zero_grad()
        self.loss().backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimiser.step()

    def loss(self) -> Tensor:
        """Nats per token."""
        cuda = self.device.startswith("cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16) if cuda else contextlib.nullcontext():
            logits = self.model(self.ids[:, :-1])
        return F.cross_entropy(logits.float().flatten(0, 1), self.ids[:, 1:].flatten())

    def peak_bytes(self) -> int:
        """Weights, gradients, optimiser state and what the forward pass keeps; on a GPU what the allocator held."""
        if self.device.startswith("cuda"):
            torch.cuda.reset_peak_memory_stats()
        kept = Kept(self.model)
        with kept:
            loss = self.loss()
        loss.backward()
        return peak_memory(self.model, self.optimiser, kept.nbytes(), self.device)[0]
