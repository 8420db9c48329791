"""What one token of a sentence is: a word, a character, or a piece of a word."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, Protocol

from experiments.tasks.subwords import START, Subwords

Level = Literal["word", "char", "subword"]
WORD = re.compile(r"\w+(?:[’']\w+)*|[^\w\s]")


class Cutter(Protocol):
    """Cuts sentences of one language into tokens, and puts tokens together.

    Attributes:
        separator: what stands between tokens in the text that `together` takes.
    """

    separator: str

    def apart(self, text: str) -> list[str]:
        """Tokens of a sentence."""

    def known(self, sentences: Iterable[Sequence[str]], n: int) -> list[str]:
        """The tokens that a vocabulary of n holds, sorted, given the training sentences."""

    def together(self, text: str) -> str:
        """The sentence of tokens, with the usual blanks around punctuation."""


class Words:
    """Words and punctuation marks; those that are rare in training are unknown."""

    separator = " "

    def apart(self, text: str) -> list[str]:
        return WORD.findall(text)

    def known(self, sentences: Iterable[Sequence[str]], n: int) -> list[str]:
        return _frequent(sentences, n)

    def together(self, text: str) -> str:
        return re.sub(r"([¿¡(\[“‘]) ", r"\1", re.sub(r" ([.,;:?!)\]”’])", r"\1", text))


class Characters:
    """Characters, the blank among them."""

    separator = ""

    def apart(self, text: str) -> list[str]:
        return list(text)

    def known(self, sentences: Iterable[Sequence[str]], n: int) -> list[str]:
        return _frequent(sentences, n)

    def together(self, text: str) -> str:
        return text


class Pieces(Words):
    """Words cut further into pieces that training has often; only characters that it lacks are unknown."""

    separator = ""

    def __init__(self, sentences: Iterable[str], n: int) -> None:
        self._subwords = Subwords(Counter(word for text in sentences for word in WORD.findall(text)), n)

    def apart(self, text: str) -> list[str]:
        return [piece for word in WORD.findall(text) for piece in self._subwords.cut(word)]

    def known(self, sentences: Iterable[Sequence[str]], n: int) -> list[str]:
        return list(self._subwords.pieces)

    def together(self, text: str) -> str:
        return super().together(text.replace(START, " ").strip())


def cutter(level: Level, sentences: Iterable[str], n: int) -> Cutter:
    """How sentences of one language are cut, given those of training and how many tokens there may be."""
    return LEVELS[level](sentences, n)


LEVELS: dict[Level, Callable[[Iterable[str], int], Cutter]] = {
    "word": lambda sentences, n: Words(), "char": lambda sentences, n: Characters(), "subword": Pieces,
}


def _frequent(sentences: Iterable[Sequence[str]], n: int) -> list[str]:
    counts = Counter(token for sentence in sentences for token in sentence)
    return sorted(sorted(counts, key=lambda token: (-counts[token], token))[:n])
