"""Is the model what it should be, before any training? Masks, positions, sizes, softmax, units, gradients."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from experiments.diagnosis.case import Case
from experiments.diagnosis.finding import Finding
from experiments.diagnosis.onset import since
from experiments.tasks import Batch
from experiments.training.forward import each, logits_of
from experiments.training.looking.probes import Seen, influence, never_active, rows_of, sizes_of
from experiments.training.looking.watch import watched
from transformer.blocks import Stack
from transformer.slots import Positional

LONGEST = 32  # positions of the Jacobian test
LEAK = 1e-6  # of the largest influence: what rounding could be
SATURATED = 0.10  # share of softmax rows, at the start of training
DEAD = 0.5  # share of units of a layer
SHRINKS = 1e-3  # gradient at the first layer over that at the last, or the inverse
DROWNS, VANISHES, OVERWHELMS = 10.0, 0.01, 30.0  # ratios of sizes that meet in one sum
BAD_START = 2.0  # initial loss over ln(classes)


def future(case: Case) -> Iterator[Finding]:
    """Exact Jacobian: does a logit depend on a later input, or on nothing before it?"""
    model = case.fresh()
    if case.config.model.architecture == "encoder":
        yield from _padding(case, model.eval())
        return
    batch = _cropped(rows_of(case.batch, 2))
    for training in (False, True):
        matrix = influence(model.train(training), batch)
        largest, later, earlier = float(matrix.max()), matrix.triu(1), matrix.tril(-1)
        leaks = int((later > LEAK * largest).sum())
        if not leaks:
            continue
        t, s = divmod(int(later.argmax()), matrix.shape[1])
        blind = int((earlier > LEAK * largest).sum()) == 0
        norm = f"norm '{case.config.model.norm}' that mixes positions" if training else ""
        yield Finding(
            "future", "broken",
            "attention sees the future and not the past" if blind else "a position sees the positions after it",
            f"d logits[{t}] / d input[{s}] = {float(later.max()):.2g} (must be exactly 0; {leaks} of "
            f"{later.numel() // 2} pairs leak, the largest influence of all is {largest:.2g}); "
            f"{'in training' if training else 'in eval'} mode",
            norm or ("the mask is inverted: it keeps what it should block" if blind else
                     "the attention ignores its mask, or the mask is off by one"),
            "use a norm over features, such as layernorm or rmsnorm" if norm else
            "True (or 1) keeps a key, False blocks it: apply pattern.causal and pattern.keep before the softmax",
        )
        return
    yield from _blind(case, model, batch)
    yield from _padding(case, model.eval())


def _cropped(batch: Batch) -> Batch:
    """The first positions: a test per position is enough, and costs a backward pass each."""
    return Batch(
        batch.inputs[:, :LONGEST], batch.targets[:, :LONGEST], None if batch.keep is None else batch.keep[:, :LONGEST],
        batch.source, batch.source_keep,
    )


def _blind(case: Case, model: nn.Module, batch: Batch) -> Iterator[Finding]:
    matrix = influence(model.eval(), batch)
    largest = float(matrix.max())  # 0 = nothing arrives at all: a gradient that vanishes, which another check tells
    if matrix.shape[0] > 1 and largest and float(matrix.tril(-1).max()) <= LEAK * largest:
        yield Finding(
            "future", "broken", "no position sees any other",
            f"every d logits[t] / d input[s] with s < t is 0 ({matrix.shape[0]} positions tested)",
            "the mask blocks everything but the token itself, or attention gives nothing to the stream",
            "True (or 1) keeps a key; look at the attention and at its output projection",
        )


def _padding(case: Case, model: nn.Module) -> Iterator[Finding]:
    """Other tokens at padded places must change nothing at real ones."""
    batch = next((b for b in case.batches if b.keep is not None or b.source_keep is not None), None)
    if batch is None:
        return
    batch = rows_of(batch, 8)
    with torch.no_grad():
        before, after = logits_of(model, batch), logits_of(model, _other_padding(batch, case.task.vocab_size))
    change = (before - after).abs()
    if batch.keep is not None and change.dim() == 3:
        change = change[batch.keep]
    if float(change.max()) > LEAK * float(before.abs().max()):
        yield Finding(
            "padding", "broken", "padding changes the answer",
            f"other tokens at padded places change a logit by {float(change.max()):.2g} (must be exactly 0; logits "
            f"reach {float(before.abs().max()):.2g})", "the padding mask is ignored or inverted",
            "True (or 1) keeps a key: apply pattern.keep; pool over kept positions only",
        )


def _other_padding(batch: Batch, vocab_size: int) -> Batch:
    """The same batch with the last token of the vocabulary at padded places."""
    def refill(tokens: Tensor | None, keep: Tensor | None) -> Tensor | None:
        return tokens if tokens is None or keep is None else tokens.masked_fill(~keep, vocab_size - 1)

    changed = each(batch, lambda tensor: tensor)
    inputs, source = refill(batch.inputs, batch.keep), refill(batch.source, batch.source_keep)
    assert inputs is not None
    return Batch(inputs, changed.targets, batch.keep, source, batch.source_keep)


def positions(case: Case) -> Iterator[Finding]:
    """Positions that the table does not tell apart, and rows of it that training never reaches."""
    model, needed = case.fresh().eval(), case.config.model.max_len or case.task.max_len
    for name, stack in model.named_modules():
        if not isinstance(stack, Stack):
            continue
        try:
            stack.positional.reach(needed)
            same = _first_repeated(stack.positional, case.config.model.d_model, case.config.model.head_width(), needed)
        except (ValueError, IndexError) as error:
            yield _short(name, f"position {needed - 1}: {str(error).splitlines()[0]}", "the table ends before the text")
            return
        if same is not None:
            yield _short(
                name, f"positions {same} and {same - 1} of {needed} are encoded alike",
                "the table is too short and its last row is used again",
            )
            return
    yield from _untrained(case, model)


def _short(stack: str, evidence: str, cause: str) -> Finding:
    return Finding(
        "positions", "broken", "position table too short", f"{stack}: {evidence}", cause,
        "give the table as many rows as the longest text, evaluations included (dims.max_len), or use an encoding "
        "without an end: sinusoidal, rope, alibi, relative",
    )


def _first_repeated(positional: Positional, d_model: int, d_head: int, length: int) -> int | None:
    """The first position that has the encoding of the one before it, where encodings differ at all."""
    at = torch.arange(length)
    with torch.no_grad():
        added = positional.embed(torch.zeros(1, length, d_model), at)[0]
        turned = positional.rotate(torch.ones(1, 1, length, d_head), at)[0, 0]
    for table in (added, turned):
        same = (table[1:] == table[:-1]).all(-1)
        if bool(same.any()) and not bool(same.all()):
            return 1 + int(same.int().argmax())
    return None


def _untrained(case: Case, model: nn.Module) -> Iterator[Finding]:
    longest = max(batch.inputs.shape[1] for batch in case.batches)
    for name, stack in model.named_modules():
        if not isinstance(stack, Stack) or name.startswith("encoder"):
            continue
        tables = [p for p in stack.positional.parameters() if p.dim() == 2 and p.shape[0] == case.task.max_len]
        if tables and longest < case.task.max_len:
            yield Finding(
                "positions", "hint", "some learned positions are never trained",
                f"{name}: training has {longest} positions, the table {case.task.max_len}; evaluations read them all",
                "the task asks for longer texts than it trains on, and a learned table cannot extrapolate",
                "model.positional=rope, alibi or relative, or train on longer texts",
            )
            return


def scale(case: Case) -> Iterator[Finding]:
    """Sizes that meet in a sum: tokens, positions, branches; and the loss of an untrained model."""
    for stack, sizes in sizes_of(case.fresh().eval(), rows_of(case.batch, 4)).items():
        if sizes.positions and sizes.tokens and not VANISHES <= sizes.positions / sizes.tokens <= DROWNS:
            large = sizes.positions > sizes.tokens
            yield Finding(
                "scale", "harmful", "positions drown the tokens" if large else "tokens drown the positions",
                f"{stack}: root mean square {sizes.positions:.3g} of positions against {sizes.tokens:.3g} of token "
                f"embeddings, ratio {sizes.positions / sizes.tokens:.3g} (limits {VANISHES:g} to {DROWNS:g})",
                "embeddings and positions were drawn at different scales",
                "model.embedding_scale=sqrt_d_model, or the amplitude or std option of model.positional, or "
                "model.init.std",
            )
        branch, size = max(sizes.branches.items(), key=lambda pair: pair[1], default=("", 0.0))
        if sizes.stream and size / sizes.stream > OVERWHELMS:
            yield Finding(
                "scale", "harmful", "a branch drowns the residual stream",
                f"{stack}, first layer: {branch} gives {size:.3g} to a stream of {sizes.stream:.3g}, ratio "
                f"{size / sizes.stream:.3g} (limit {OVERWHELMS:g})",
                "weights that write to the stream start too large, or embeddings too small",
                "model.init=gpt, a smaller std or gain, or model.embedding_scale=sqrt_d_model",
            )
    outputs = case.task.n_classes or case.task.vocab_size
    if case.start.loss > BAD_START * math.log(outputs):
        yield Finding(
            "scale", "hint", "the untrained model is wrong with confidence",
            f"initial loss {case.start.loss:.3g}, against ln {outputs} = {math.log(outputs):.3g} of a model that knows "
            f"nothing (limit {BAD_START:g} times that)", "logits start too large, as with a tied head under xavier",
            "model.logit_scale=inverse_sqrt_d_model, model.tied=false, or smaller initial weights",
        )


def saturation(case: Case) -> Iterator[Finding]:
    """Softmax rows that are one-hot before anything was learned: their gradient is zero."""
    yield from _saturated(case, case.start_attention, "before training")


def saturated_in_vain(case: Case) -> Iterator[Finding]:
    """The same after training, where nothing was learned: heads that found what they look for may well be sharp."""
    if case.at_chance and not case.history.diverged:
        yield from _saturated(case, case.trained_attention, "though nothing was learned")


def _saturated(case: Case, attentions: list[Seen], when: str) -> Iterator[Finding]:
    shares = {seen.name: float(seen.saturated().max()) for seen in attentions}
    worst = max(shares, key=lambda name: shares[name], default="")
    if not worst or shares[worst] <= SATURATED:
        return
    seen = next(one for one in attentions if one.name == worst)
    d_head = case.config.model.head_width()
    yield Finding(
        "saturation", "harmful", f"the softmax is saturated {when}",
        f"{worst}: {shares[worst]:.0%} of rows have a weight above 0.99 (limit {SATURATED:.0%}); scores have a "
        f"standard deviation of {float(seen.scores[seen.visible].std()):.3g}, near 1 is usual"
        f"{since(case.layers, f'{worst}/saturated', SATURATED)}",
        f"scores are too large: no scaling by 1/sqrt(d_head) = {d_head**-0.5:.3g}, queries and keys that start too "
        "large, or a step too large",
        "model.scaling=sqrt_d_head, a smaller std or gain of model.init, a smaller train.lr",
    )


def dead_units(case: Case) -> Iterator[Finding]:
    """Hidden units that no token ever switches on."""
    for when, model in _models(case):
        shares = never_active(model.eval(), [rows_of(batch, 16) for batch in case.batches[:4]])
        worst = max(shares, key=lambda name: shares[name], default=None)
        if worst is not None and shares[worst] > DEAD:
            yield Finding(
                "dead_units", "harmful", "most units of a feed-forward layer are dead",
                f"{worst}, {when}: {shares[worst]:.0%} of units are 0 for every token of "
                f"{min(4, len(case.batches))} batches (limit {DEAD:.0%}){since(case.layers, f'{worst}/dead', DEAD)}",
                "their inputs are always negative, so their gradient is zero and they stay so: a large negative bias, "
                "or a step too large early on", "model.feedforward=gelu or swiglu, a smaller train.lr, longer warm-up",
            )
            return


def _models(case: Case) -> Iterator[tuple[str, nn.Module]]:
    yield "at the start", case.fresh()
    if case.trained is not None:
        yield "after training", case.trained


def gradients(case: Case) -> Iterator[Finding]:
    """Gradient at the first layer against the last, before training."""
    for stack in ("encoder", "decoder"):
        sizes = [size for name, size in case.start.layers.items() if name.startswith(stack)]
        if len(sizes) < 2 or not all(math.isfinite(size) for size in sizes) or not sizes[-1]:
            continue
        ratio = sizes[0] / sizes[-1]
        if SHRINKS <= ratio <= 1 / SHRINKS:
            continue
        vanishes = ratio < 1
        yield Finding(
            "gradients", "harmful",
            f"the gradient {'vanishes' if vanishes else 'explodes'} on its way to the first layer",
            f"{stack}: norm {sizes[0]:.2g} at the first of {len(sizes)} layers, {sizes[-1]:.2g} at the last, ratio "
            f"{ratio:.2g} (limits {SHRINKS:g} to {1 / SHRINKS:g})",
            "each layer multiplies it by about "
            f"{ratio ** (1 / (len(sizes) - 1)):.2g}: no residual stream or no norm to carry it, or weights of the "
            "wrong size", "model.placement=pre, a norm, fewer layers, or weights of std 1/sqrt(fan_in)",
        )


def not_a_number(case: Case) -> Iterator[Finding]:
    """NaN or infinity before a single weight was changed."""
    model = case.fresh()
    with watched(model) as seen, torch.no_grad():
        logits = logits_of(model, rows_of(case.batch, 4))
    if bool(torch.isfinite(logits).all()):
        return
    where = seen.first_not_finite() or "the head"
    before = ", ".join(f"{name} {size:.3g}" for name, size in seen.activations.items() if math.isfinite(size))
    yield Finding(
        "not_a_number", "broken", "the untrained model gives NaN or infinity",
        f"first in {where}; sizes of what is finite: {before or 'nothing'}",
        "a component divides by zero, takes a logarithm or a root of something negative, or overflows; a softmax over "
        "a row that may see nothing gives NaN", f"look at {where}; add an epsilon, or treat fully blocked rows",
    )
