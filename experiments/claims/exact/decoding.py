"""What the knobs of decoding do, each as its paper has it, on the code that generates."""

from __future__ import annotations

import torch
from torch import Tensor

from experiments.claims.exact.models import model, normal, tokens
from experiments.claims.measured import Value
from experiments.seeds import torch_stream
from transformer.generation import Decode, generate
from transformer.generation.processors import keep_top_k, keep_top_p, penalise_repeats, warp

VOCAB, ROWS = 24, 64


def knobs() -> list[Value]:
    """Temperature, top-k, top-p, repetition penalty, beams and their length penalty, and the cache."""
    logits = 3 * normal(ROWS, VOCAB, address="logits")
    return [*_cuts(logits), *_temperature(logits), *_penalty(logits), *_beams()]


def _cuts(logits: Tensor) -> list[Value]:
    p = logits.softmax(-1)
    kept_k, kept_p = keep_top_k(logits, 5).isfinite(), keep_top_p(logits, 0.9).isfinite()
    mass = (p * kept_p).sum(-1)
    least = torch.where(kept_p, p, 2.0).amin(-1)  # without its least token the nucleus must fall short
    return [
        Value("top-k", "tokens kept of 5 asked: fewest", float(kept_k.sum(-1).min()), 5, 5),
        Value("top-k", "tokens kept of 5 asked: most", float(kept_k.sum(-1).max()), 5, 5),
        Value("top-p", "least probability kept of 0.9 asked", float(mass.min()), low=0.9),
        Value("top-p", "most probability kept without the last token", float((mass - least).max()), high=0.9),
    ]


def _temperature(logits: Tensor) -> list[Value]:
    hot, cold = (warp(logits, Decode(temperature=t)).softmax(-1) for t in (2.0, 1e-4))
    entropy, hotter = (torch.special.entr(x).sum(-1) for x in (logits.softmax(-1), hot))
    made, prompts = _small(), tokens(4, 6, VOCAB, "decoding")
    greedy = generate(made, prompts, Decode(max_new_tokens=12)).tokens
    icy = Decode(max_new_tokens=12, temperature=1e-6)
    cold_text = generate(made, prompts, icy, generator=torch_stream("claims")).tokens
    return [
        Value("temperature", "above 1: least gain in entropy, nats", float((hotter - entropy).min()), low=0.0),
        Value("temperature", "near 0: least probability of the likeliest token", float(cold.amax(-1).min()), low=0.9),
        Value("temperature", "near 0: tokens that differ from greedy", float((greedy != cold_text).sum()), high=0.0),
    ]


def _penalty(logits: Tensor) -> list[Value]:
    seen = logits.topk(3, -1).indices[:, :2]
    low = logits.topk(3, -1, largest=False).indices[:, :2]
    found = []
    for words, there in (("likely", seen), ("unlikely", low)):
        after = penalise_repeats(logits, there, torch.ones_like(there, dtype=torch.bool), 1.2)
        change = (after - logits).gather(1, there)
        found.append(Value("repetition-penalty", f"{words} tokens seen before: largest change of a logit",
                           float(change.max()), high=0.0))  # fmt: skip
    return found


def _beams() -> list[Value]:
    made, prompts = _small(), tokens(4, 6, VOCAB, "decoding")
    greedy = generate(made, prompts, Decode(max_new_tokens=8))
    cached = generate(made, prompts, Decode(max_new_tokens=8), cached=False)
    one = generate(made, prompts, Decode(max_new_tokens=8, beams=1, length_penalty=0.0))
    many = generate(made, prompts, Decode(max_new_tokens=8, beams=8, length_penalty=0.0))
    lengths = {p: _ended(made, prompts, p) for p in (0.0, 2.0)}
    return [
        Value("beams", "one beam: tokens unlike greedy", float((one.tokens != greedy.tokens).sum()), high=0.0),
        Value("beams", "eight beams: least gain in log p over greedy", float((many.scores - greedy.scores).min()),
              low=-1e-4),
        Value("length-penalty", "mean length at penalty 2 less that at 0", lengths[2.0] - lengths[0.0], low=0.1),
        Value("cache", "tokens that differ with and without", float((cached.tokens != greedy.tokens).sum()), high=0.0),
    ]  # fmt: skip


def _ended(made: torch.nn.Module, prompts: Tensor, penalty: float) -> float:
    decode = Decode(max_new_tokens=16, beams=4, length_penalty=penalty, eos_id=13)
    return float(generate(made, prompts, decode).lengths.double().mean())


def _small() -> torch.nn.Module:
    return model(VOCAB, 32, init={"name": "gpt", "std": 0.2}, tied=False).eval()
