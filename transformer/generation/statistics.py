"""How repetitive and how varied texts are. Pure functions on token ids; no torch.

Source: Holtzman et al. 2019, arXiv:1904.09751 (repetition); Li et al. 2016, arXiv:1510.03055 (distinct-n).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def repeated_ngram_share(tokens: Sequence[int], n: int = 4) -> float:
    """Share (0..1) of the n-grams of one text that already occurred earlier in it; 0 for a text shorter than n.

    Raises:
        ValueError: n is below 1.
    """
    grams = list(_ngrams(tokens, n))
    return 1.0 - len(set(grams)) / len(grams) if grams else 0.0


def distinct_n(texts: Sequence[Sequence[int]], n: int = 2) -> float:
    """Share (0..1] of different n-grams among all n-grams of all texts: low = the texts say the same.

    Depends on the amount of text, so compare only texts of equal number and length.

    Raises:
        ValueError: n is below 1, or no text has n tokens.
    """
    grams = [gram for tokens in texts for gram in _ngrams(tokens, n)]
    if not grams:
        raise ValueError(f"none of {len(texts)} texts has n={n} tokens, so there is nothing to count")
    return len(set(grams)) / len(grams)


def ends_in_loop(tokens: Sequence[int], *, times: int = 3, shortest: int = 2) -> bool:
    """Whether the text ends in the same phrase of at least `shortest` tokens said at least `times` times in a row.

    Raises:
        ValueError: times is below 2 (everything would be a loop), or shortest below 1.
    """
    if times < 2 or shortest < 1:
        raise ValueError(f"times={times} must be at least 2 and shortest={shortest} at least 1")
    return any(
        all(tokens[-i] == tokens[-i - period] for i in range(1, (times - 1) * period + 1))
        for period in range(shortest, len(tokens) // times + 1)
    )


def loop_rate(texts: Sequence[Sequence[int]], *, times: int = 3, shortest: int = 2) -> float:
    """Share (0..1) of texts that end in a loop: see `ends_in_loop`.

    Raises:
        ValueError: there is no text, or an option of `ends_in_loop` is out of range.
    """
    if not texts:
        raise ValueError("a loop rate needs at least one text")
    return sum(ends_in_loop(tokens, times=times, shortest=shortest) for tokens in texts) / len(texts)


def _ngrams(tokens: Sequence[int], n: int) -> Iterator[tuple[int, ...]]:
    if n < 1:
        raise ValueError(f"n={n} must be at least 1")
    return (tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))
