"""Text from a model: greedy, sampled or by beam search, for a batch of prompts at once.

B prompts, N texts a prompt, R = B*N rows, P prompt length, T new tokens, V vocabulary, S source length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from transformer.generation.beam import Texts, beam_search
from transformer.generation.processors import penalise, warp
from transformer.generation.reader import Reader, evaluating
from transformer.generation.settings import Decode


@dataclass(frozen=True)
class Generated:
    """New texts, without their prompts.

    Attributes:
        tokens: int64 (B, N, T): new tokens, the end token included once, then pad_id.
        lengths: int64 (B, N): new tokens of each text, the end token included.
        scores: float32 (B, N): for beam search sum(log p) / length^length_penalty, best first; else sum(log p) of the
            chosen tokens, in nats, under the model as it is (before penalties, temperature and cuts). A beam search
            that cannot find N different texts, in a tiny vocabulary, fills up with empty ones or repeats, whose
            scores are of the order of -1e9.
    """

    tokens: Tensor
    lengths: Tensor
    scores: Tensor

    def lists(self) -> list[list[list[int]]]:
        """The tokens of each text of each prompt, padding left out."""
        rows = zip(self.tokens.tolist(), self.lengths.tolist(), strict=True)
        return [[text[:n] for text, n in zip(texts, ns, strict=True)] for texts, ns in rows]


def generate(
    model: nn.Module, prompts_BP: Tensor, decode: Decode, *, keep: Tensor | None = None, source: Tensor | None = None,
    source_keep: Tensor | None = None, generator: torch.Generator | None = None, cached: bool = True,
) -> Generated:
    """Continues each prompt; the model is in eval mode meanwhile, and no gradients are kept.

    Args:
        model: a DecoderLM, or an EncoderDecoder (then prompts are what its decoder starts from).
        prompts_BP: int64 (B, P); shorter prompts are padded on the left, see `left_pad`.
        keep: bool (B, P), True = a real token; None = all are.
        source, source_keep: int64 and bool (B, S), for an EncoderDecoder.
        generator: the random stream of sampling; it is drawn from on its own device.
        cached: keep keys and values of tokens that were read. Only speed depends on it.

    Raises:
        ValueError: no prompt, a prompt padded on the right, a source too many or too few, sampling without a
            generator, a rule that bans every token, logits that are not numbers, or more tokens than the model
            has positions for (nothing is cut off: texts of models with other positions could not be compared).
    """
    keep = torch.ones_like(prompts_BP, dtype=torch.bool) if keep is None else keep.bool()
    _check(prompts_BP, keep, decode, generator)
    rows = decode.beams or decode.n_best
    with evaluating(model):
        reader = Reader(model, keep, rows, source=source, source_keep=source_keep, cached=cached)
        reader.check_room(decode.max_new_tokens)
        if decode.beams is None:
            return _one_by_one(reader, prompts_BP.repeat_interleave(rows, 0), decode, generator)
        found = beam_search(reader, prompts_BP, decode)
    return _trimmed(found.tokens[:, :, prompts_BP.shape[1] :], found, decode)


def left_pad(prompts: Sequence[Sequence[int]], pad_id: int = 0) -> tuple[Tensor, Tensor]:
    """Prompts of different lengths as int64 (B, P) with padding before them, and bool (B, P), True = a real token."""
    longest = max(len(prompt) for prompt in prompts)
    tokens = torch.tensor([[pad_id] * (longest - len(prompt)) + list(prompt) for prompt in prompts])
    keep = torch.tensor([[False] * (longest - len(prompt)) + [True] * len(prompt) for prompt in prompts])
    return tokens.long(), keep


def _one_by_one(reader: Reader, tokens_RT: Tensor, decode: Decode, generator: torch.Generator | None) -> Generated:
    n_rows, prompt_length = tokens_RT.shape
    running_R = torch.ones(n_rows, dtype=torch.bool, device=tokens_RT.device)
    log_p_R = torch.zeros(n_rows, dtype=torch.float32, device=tokens_RT.device)
    lengths_R = torch.zeros(n_rows, dtype=torch.int64, device=tokens_RT.device)
    for _ in range(decode.max_new_tokens):
        logits_RV = reader.next_logits(tokens_RT).float()
        scores_RV = penalise(logits_RV, tokens_RT, reader.keep(tokens_RT.shape[1]), decode)
        chosen_R = _choose(scores_RV, running_R, decode, generator)
        step_R = logits_RV.log_softmax(-1).gather(1, chosen_R[:, None])[:, 0]
        log_p_R, lengths_R = log_p_R + torch.where(running_R, step_R, 0.0), lengths_R + running_R
        tokens_RT = torch.cat([tokens_RT, torch.where(running_R, chosen_R, decode.pad_id)[:, None]], 1)
        if decode.eos_id is not None:
            running_R = running_R & (chosen_R != decode.eos_id)
        if not running_R.any():
            break
    shape = (-1, decode.n_best)
    return Generated(tokens_RT[:, prompt_length:].unflatten(0, shape), lengths_R.view(shape), log_p_R.view(shape))


def _choose(scores_RV: Tensor, running_R: Tensor, decode: Decode, generator: torch.Generator | None) -> Tensor:
    """(R,): the likeliest token, or one drawn from what penalties, temperature and cuts leave."""
    if (running_R & (scores_RV.amax(-1) == -torch.inf)).any():
        raise ValueError(
            f"no_repeat_ngram={decode.no_repeat_ngram} bans every one of {scores_RV.shape[1]} tokens; "
            "raise it, or lower max_new_tokens"
        )
    if generator is None or decode.temperature == 0:
        return scores_RV.argmax(-1)
    scores_RV = torch.where(running_R[:, None], scores_RV, 0.0)  # an ended row must still be possible to draw for
    p_RV = warp(scores_RV, decode).softmax(-1).to(generator.device)
    return torch.multinomial(p_RV, 1, generator=generator)[:, 0].to(scores_RV.device)


def _lengths(new_BNT: Tensor, decode: Decode) -> Tensor:
    """(B, N): tokens up to and including the first end token, or all."""
    if decode.eos_id is None:
        return torch.full(new_BNT.shape[:2], new_BNT.shape[2], device=new_BNT.device)
    is_end_BNT = new_BNT == decode.eos_id
    return torch.where(is_end_BNT.any(-1), is_end_BNT.int().argmax(-1) + 1, new_BNT.shape[2])


def _trimmed(new_BNT: Tensor, found: Texts, decode: Decode) -> Generated:
    lengths_BN = _lengths(new_BNT, decode) * found.finished
    longest = int(lengths_BN.max())
    blank = torch.arange(longest, device=new_BNT.device) >= lengths_BN[..., None]
    tokens_BNT = new_BNT[:, :, :longest].masked_fill(blank, decode.pad_id)
    return Generated(tokens_BNT, lengths_BN, found.scores)


def _check(prompts_BP: Tensor, keep_BP: Tensor, decode: Decode, generator: torch.Generator | None) -> None:
    if not keep_BP.numel() or not keep_BP.any(1).all():
        raise ValueError("a prompt is empty: each needs at least one token, such as the one that texts begin with")
    if not keep_BP[:, -1].all() or (keep_BP[:, :-1] & ~keep_BP[:, 1:]).any():
        raise ValueError("prompts must be padded on the left: keep may hold False only before the first True of a row")
    if decode.temperature > 0 and generator is None:
        raise ValueError(f"temperature={decode.temperature} samples, which needs a torch.Generator: pass generator=")
