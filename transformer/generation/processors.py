"""What changes the distribution of the next token: pure functions on scores; -inf = cannot be chosen.

B rows, V vocabulary, T tokens so far. The order is the one that is common elsewhere: repetition penalty, banned
n-grams, temperature, top-k, top-p. No function writes into its arguments.
"""

from __future__ import annotations

import torch
from torch import Tensor

from transformer.generation.settings import Decode


def penalise(scores_BV: Tensor, tokens_BT: Tensor, keep_BT: Tensor, decode: Decode) -> Tensor:
    """What depends on the text so far (prompt included): repetition penalty, then banned n-grams."""
    if decode.repetition_penalty != 1.0:
        scores_BV = penalise_repeats(scores_BV, tokens_BT, keep_BT, decode.repetition_penalty)
    if decode.no_repeat_ngram is not None:
        scores_BV = ban_repeated_ngrams(scores_BV, tokens_BT, keep_BT, decode.no_repeat_ngram)
    return scores_BV


def warp(logits_BV: Tensor, decode: Decode) -> Tensor:
    """What shapes the distribution that is sampled from: temperature (above 0), then top-k, then top-p."""
    logits_BV = logits_BV / decode.temperature
    if decode.top_k is not None:
        logits_BV = keep_top_k(logits_BV, decode.top_k)
    if decode.top_p is not None:
        logits_BV = keep_top_p(logits_BV, decode.top_p)
    return logits_BV


def penalise_repeats(scores_BV: Tensor, tokens_BT: Tensor, keep_BT: Tensor, penalty: float) -> Tensor:
    """s / penalty where s > 0 and s * penalty where s < 0, once for each different token already there.

    Args:
        scores_BV: logits, or log-probabilities in beam search (which are then not normalised again).
        tokens_BT, keep_BT: the text so far; where keep is False the token is padding and counts as absent.
        penalty: above 1 makes repeats less likely, below 1 more likely.

    Source: Keskar et al. 2019, arXiv:1909.05858, section 4.1; a division alone would favour repeats where s < 0.
    """
    seen_BV = torch.zeros(scores_BV.shape, dtype=torch.int64, device=scores_BV.device)
    seen_BV = seen_BV.scatter_add(1, tokens_BT, keep_BT.to(torch.int64)) > 0
    penalised_BV = torch.where(scores_BV < 0, scores_BV * penalty, scores_BV / penalty)
    return torch.where(seen_BV, penalised_BV, scores_BV)


def ban_repeated_ngrams(scores_BV: Tensor, tokens_BT: Tensor, keep_BT: Tensor, n: int) -> Tensor:
    """-inf for each token that would complete n tokens which already stand in a row in the text so far.

    Source: Paulus et al. 2017, arXiv:1705.04304, section 2.5 (there with n = 3).
    """
    length = tokens_BT.shape[1]
    if length < n:
        return scores_BV
    grams_BWn, kept_BWn = tokens_BT.unfold(1, n, 1), keep_BT.unfold(1, n, 1)
    latest_Bn1 = tokens_BT[:, length - n + 1 :]
    same_BW = (grams_BWn[:, :, :-1] == latest_Bn1[:, None]).all(-1) & kept_BWn.all(-1)
    banned_BV = torch.zeros(scores_BV.shape, dtype=torch.int64, device=scores_BV.device)
    banned_BV = banned_BV.scatter_add(1, grams_BWn[:, :, -1], same_BW.to(torch.int64)) > 0
    return scores_BV.masked_fill(banned_BV, -torch.inf)


def keep_top_k(logits_BV: Tensor, k: int) -> Tensor:
    """-inf for every token below the k-th largest logit. Ties with it stay; k above V keeps all.

    Source: Fan et al. 2018, arXiv:1805.04833, section 5.3.
    """
    threshold_B1 = logits_BV.topk(min(k, logits_BV.shape[-1]), dim=-1).values[:, -1:]
    return logits_BV.masked_fill(logits_BV < threshold_B1, -torch.inf)


def keep_top_p(logits_BV: Tensor, p: float) -> Tensor:
    """-inf outside the smallest set of likeliest tokens with a probability of at least p; one token always stays.

    The token that crosses p belongs to the set: p = 0.8 keeps two of (0.5, 0.3, 0.2), p = 0.81 keeps three.

    Source: Holtzman et al. 2019, arXiv:1904.09751, section 3.1.
    """
    if p >= 1.0:
        return logits_BV
    ascending_BV, order_BV = logits_BV.sort(dim=-1)
    # summed from the unlikely end: a token goes while all up to it weigh no more than 1 - p
    gone_BV = ascending_BV.softmax(-1).cumsum(-1) <= 1 - p
    gone_BV = torch.cat([gone_BV[:, :-1], torch.zeros_like(gone_BV[:, -1:])], dim=-1)
    return logits_BV.masked_fill(torch.zeros_like(gone_BV).scatter(1, order_BV, gone_BV), -torch.inf)
