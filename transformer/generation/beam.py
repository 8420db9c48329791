"""Beam search: the K likeliest texts, kept side by side.

B prompts, K beams, C = 2K candidates, V vocabulary, P prompt length, T = P + longest new text.
A text scores sum(log p) / length^length_penalty, its length counting the end token but not the prompt. At each step

1. the 2K best one-token extensions of the running beams become candidates;
2. a candidate ends with the end token, or because it is as long as allowed;
3. the K best that do not end run on (2K candidates leave K of them, even when every beam has ended);
4. one that ends joins the K best finished texts if it ranks among the first K candidates;
5. a prompt is done when no running beam could still win, which `early_stopping` decides.

Dead entries carry -1e9 instead of -inf, in float32: the rules, and what wins a tie, are those of the generation
library that most published beam-search numbers come from, so such numbers can be compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from transformer.generation.processors import penalise
from transformer.generation.settings import Decode

DEAD = -1.0e9


class NextToken(Protocol):
    """Whatever knows the logits of the next token: see `reader.Reader`."""

    def next_logits(self, tokens_RT: Tensor) -> Tensor: ...

    def keep(self, length: int) -> Tensor: ...

    def reorder(self, rows_R: Tensor) -> None: ...


@dataclass(frozen=True)
class Texts:
    """Texts of each prompt: tokens (B, n, T); scores float32 (B, n), best first; finished bool (B, n)."""

    tokens: Tensor
    scores: Tensor
    finished: Tensor

    def pick(self, index_BN: Tensor) -> Texts:
        tokens = self.tokens.gather(1, index_BN[..., None].expand(-1, -1, self.tokens.shape[-1]))
        return Texts(tokens, self.scores.gather(1, index_BN), self.finished.gather(1, index_BN))

    def best(self, n: int) -> Texts:
        return self.pick(self.scores.topk(n, dim=1).indices)


def beam_search(reader: NextToken, prompts_BP: Tensor, decode: Decode) -> Texts:
    """The n_best finished texts of each prompt, prompt included, pad_id after their end.

    Args:
        reader: reads B*K rows, the K beams of a prompt next to each other.
        prompts_BP: int64 (B, P); what is padding is the reader's to know.
        decode: needs `beams`.
    """
    assert decode.beams is not None
    n_prompts, prompt_length = prompts_BP.shape
    running, finished = _start(prompts_BP, decode.beams, decode)
    first_row_B1 = decode.beams * torch.arange(n_prompts, device=prompts_BP.device)[:, None]
    still_open_B1 = torch.ones_like(first_row_B1, dtype=torch.bool)
    for length in range(1, decode.max_new_tokens + 1):
        at = prompt_length + length - 1
        candidates, parents_BC = _extend(running, _log_probs(reader, running.tokens[:, :, :at], decode), at)
        ends_BC = candidates.tokens[:, :, at] == (-1 if decode.eos_id is None else decode.eos_id)
        ends_BC = ends_BC | (length == decode.max_new_tokens)
        finished = _finish(finished, candidates, ends_BC, still_open_B1, length, decode)
        running, parents_BK = _run_on(candidates, parents_BC, ends_BC, decode.beams)
        still_open_B1 = still_open_B1 & _could_win(running, finished, length, decode)
        if not still_open_B1.any():
            break
        reader.reorder((parents_BK + first_row_B1).flatten())
    return finished.pick(torch.arange(decode.n_best, device=prompts_BP.device).expand(n_prompts, -1))


def _start(prompts_BP: Tensor, beams: int, decode: Decode) -> tuple[Texts, Texts]:
    n_prompts, prompt_length = prompts_BP.shape
    shape = (n_prompts, beams)
    tokens = prompts_BP.new_full((*shape, prompt_length + decode.max_new_tokens), decode.pad_id)
    tokens[:, :, :prompt_length] = prompts_BP[:, None]
    none = torch.zeros(shape, dtype=torch.bool, device=tokens.device)
    scores = torch.full(shape, DEAD, dtype=torch.float32, device=tokens.device)
    first_only = scores.clone()
    first_only[:, 0] = 0.0  # all beams hold the prompt: only one may be extended, or the same text fills them all
    return Texts(tokens, first_only, none), Texts(tokens, scores, none)


def _log_probs(reader: NextToken, tokens_BKT: Tensor, decode: Decode) -> Tensor:
    rows_RT = tokens_BKT.flatten(0, 1)
    log_probs_RV = reader.next_logits(rows_RT).float().log_softmax(-1)
    log_probs_RV = penalise(log_probs_RV, rows_RT, reader.keep(rows_RT.shape[1]), decode)
    return log_probs_RV.unflatten(0, tokens_BKT.shape[:2])


def _extend(running: Texts, log_probs_BKV: Tensor, at: int) -> tuple[Texts, Tensor]:
    """The 2K best extensions by one token, and the beam that each came from (B, 2K)."""
    beams, n_vocab = log_probs_BKV.shape[1:]
    total_BN = (running.scores[..., None] + log_probs_BKV).flatten(1)
    scores_BC, flat_BC = total_BN.topk(min(2 * beams, total_BN.shape[1]), dim=1)
    parents_BC = flat_BC // n_vocab
    tokens_BCT = running.pick(parents_BC).tokens.index_copy(
        2, torch.tensor([at], device=flat_BC.device), (flat_BC % n_vocab)[..., None]
    )
    return Texts(tokens_BCT, scores_BC, torch.zeros_like(parents_BC, dtype=torch.bool)), parents_BC


def _run_on(candidates: Texts, parents_BC: Tensor, ends_BC: Tensor, beams: int) -> tuple[Texts, Tensor]:
    """The K best candidates that have not ended, and the beam that each came from (B, K)."""
    alive = Texts(candidates.tokens, candidates.scores + DEAD * ends_BC.float(), candidates.finished)
    index_BK = alive.scores.topk(beams, dim=1).indices
    return alive.pick(index_BK), parents_BC.gather(1, index_BK)


def _finish(
    finished: Texts, candidates: Texts, ends_BC: Tensor, still_open_B1: Tensor, length: int, decode: Decode
) -> Texts:
    """The K best of those that had finished and those that finish now."""
    assert decode.beams is not None
    full_B1 = finished.finished.all(1, keepdim=True) & (decode.early_stopping is True)
    joins_BC = ends_BC & (torch.arange(ends_BC.shape[1], device=ends_BC.device) < decode.beams)
    scores_BC = candidates.scores / length**decode.length_penalty
    for barred in (full_B1, ~still_open_B1, ~joins_BC):
        scores_BC = scores_BC + DEAD * barred.float()
    return Texts(
        torch.cat([finished.tokens, candidates.tokens], 1),
        torch.cat([finished.scores, scores_BC], 1),
        torch.cat([finished.finished, joins_BC], 1),
    ).best(decode.beams)


def _could_win(running: Texts, finished: Texts, length: int, decode: Decode) -> Tensor:
    """(B, 1): whether a running beam could still change the finished texts of its prompt."""
    to_the_end = decode.early_stopping == "never" and decode.length_penalty > 0
    best_length = decode.max_new_tokens if to_the_end else length
    best_B1 = running.scores[:, :1] / best_length**decode.length_penalty
    worst_B1 = finished.scores.min(1, keepdim=True).values
    beats_BK = best_B1 > torch.where(finished.finished, worst_B1, DEAD)
    full_B1 = finished.finished.all(1, keepdim=True) & (decode.early_stopping is True)
    return beats_BK.any(1, keepdim=True) & ~full_B1
