"""Byte-pair encoding: frequent words are one token, rare ones several, and no word is unknown."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from heapq import heapify, heappop, heappush
from itertools import pairwise

START = "▁"  # stands before the first piece of a word, in place of the blank
Pair = tuple[str, str]


class Subwords:
    """Pieces of words, learned from how often words occur: the most frequent pair of neighbours becomes one piece,
    again and again.

    Args:
        counts: how often each word occurs.
        size: pieces at most, the single characters included; characters beyond it are never cut off.

    Attributes:
        pieces: every piece that a word can have, sorted.

    Source: Sennrich, Haddow, Birch 2016, arXiv:1508.07909, section 3.2. Ours marks where a word starts, not its end.
    """

    def __init__(self, counts: Mapping[str, int], size: int) -> None:
        letters = {piece for word in counts for piece in spelled(word)}
        merges = learned(counts, max(0, size - len(letters)))
        self._rank = {pair: rank for rank, pair in enumerate(merges)}
        self._known: dict[str, tuple[str, ...]] = {}
        self.pieces = tuple(sorted(letters | {a + b for a, b in merges}))

    def cut(self, word: str) -> tuple[str, ...]:
        """The pieces of a word: pairs are joined in the order in which they were learned."""
        if word not in self._known:
            pieces = spelled(word)
            while found := min(pairwise(pieces), key=self._order, default=None):
                if found not in self._rank:
                    break
                pieces = joined(pieces, found)
            self._known[word] = pieces
        return self._known[word]

    def _order(self, pair: Pair) -> int:
        return self._rank.get(pair, len(self._rank))


def spelled(word: str) -> tuple[str, ...]:
    """The characters of a word, the first with the mark of a start."""
    return (START + word[0], *word[1:])


def joined(pieces: tuple[str, ...], pair: Pair) -> tuple[str, ...]:
    """The same word with every occurrence of a pair as one piece, from the left."""
    found: list[str] = []
    at = 0
    while at < len(pieces):
        width = 2 if pieces[at : at + 2] == pair else 1
        found.append("".join(pieces[at : at + width]))
        at += width
    return tuple(found)


def learned(counts: Mapping[str, int], n: int) -> list[Pair]:
    """The first n pairs to join, fewer where no pair occurs twice; of equally frequent ones the first by spelling."""
    words = _Words(counts)
    merges: list[Pair] = []
    while len(merges) < n and (best := words.most_frequent()) is not None:
        merges.append(best)
        words.join(best)
    return merges


class _Words:
    """Words in pieces, and how often each pair of neighbours stands in them."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self._counts, self._pieces = counts, {word: spelled(word) for word in counts}
        self._often: Counter[Pair] = Counter()
        self._where: defaultdict[Pair, set[str]] = defaultdict(set)
        for word in counts:
            self._add(word, counts[word])
        self._queue = [(-count, pair) for pair, count in self._often.items()]  # may hold counts that are no longer true
        heapify(self._queue)

    def most_frequent(self) -> Pair | None:
        """The pair that stands most often, at least twice."""
        while self._queue:
            count, pair = heappop(self._queue)
            if -count == self._often[pair] and -count > 1:
                return pair
        return None

    def join(self, pair: Pair) -> None:
        """Makes one piece of the pair in every word."""
        changed: set[Pair] = set()
        for word in self._where.pop(pair):
            changed |= self._add(word, -self._counts[word])
            self._pieces[word] = joined(self._pieces[word], pair)
            changed |= self._add(word, self._counts[word])
        for other in changed:
            heappush(self._queue, (-self._often[other], other))

    def _add(self, word: str, count: int) -> set[Pair]:
        pairs = list(pairwise(self._pieces[word]))
        for pair in pairs:
            self._often[pair] += count
            self._where[pair].add(word)
        return set(pairs)
