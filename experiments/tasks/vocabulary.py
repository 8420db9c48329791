"""Readable symbols for token ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

PAD, BOS, EOS = 0, 1, 2
SPECIALS = ("<pad>", "<bos>", "<eos>")


@dataclass(frozen=True)
class Vocabulary:
    """The symbol of each token id.

    Attributes:
        task: whose tokens these are; used in messages.
        symbols: symbol of id 0, 1, ...; all different.
        separator: what stands between symbols in text: "" for characters, " " for words.
        silent: ids that `decode` leaves out, such as padding.
        unknown: id of what is not in the vocabulary; None = refuse it.
    """

    task: str
    symbols: tuple[str, ...]
    separator: str = " "
    silent: frozenset[int] = frozenset()
    unknown: int | None = None
    ids: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", {symbol: index for index, symbol in enumerate(self.symbols)})

    def __len__(self) -> int:
        return len(self.symbols)

    def encode(self, text: str) -> list[int]:
        """Ids of the symbols of `text`.

        Raises:
            ValueError: a symbol is not in the vocabulary and there is no unknown token.
        """
        return self.lookup(text.split() if self.separator == " " else text)

    def lookup(self, symbols: Iterable[str]) -> list[int]:
        """Ids of symbols that are already apart."""
        found = [(symbol, self.ids.get(symbol, self.unknown)) for symbol in symbols]
        strange = [symbol for symbol, index in found if index is None]
        if strange:
            known = self.separator.join(s for i, s in enumerate(self.symbols) if i not in self.silent)
            shown = known if len(known) <= 200 else known[:200] + "..."
            raise ValueError(f"task '{self.task}' has no symbol {strange[0]!r}; it knows: {shown!r}")
        return [index for _, index in found if index is not None]

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of ids; silent ones are left out.

        Raises:
            ValueError: an id is outside the vocabulary.
        """
        wrong = [int(t) for t in tokens if not 0 <= t < len(self.symbols)]
        if wrong:
            raise ValueError(f"task '{self.task}' has tokens 0..{len(self.symbols) - 1}, but got {wrong[0]}")
        return self.separator.join(self.symbols[t] for t in tokens if t not in self.silent)
