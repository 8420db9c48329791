"""Which runs to make: every combination, or a fraction that keeps main effects clear of two-way interactions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice, product
from math import prod
from typing import TypeVar

T = TypeVar("T")
Word = tuple[str, ...]


@dataclass(frozen=True)
class Fraction:
    """A regular fraction of a two-level factorial.

    A word of the defining relation is a set of factors whose signs multiply to +1 in every run; two
    effects are aliases, one column for both, where their product is such a word.
    """

    factors: tuple[str, ...]
    runs: tuple[tuple[int, ...], ...]  # -1 or +1, one row a run, one entry a factor
    generators: Mapping[str, Word]
    words: tuple[Word, ...]
    resolution: int  # length of the shortest word
    aliases: Mapping[Word, tuple[Word, ...]]  # main effects and two-way interactions that share a column

    def settings(self, levels: Mapping[str, Sequence[T]]) -> list[dict[str, T]]:
        """The runs in the words of the experiment; levels[factor] = (at -1, at +1)."""
        if set(levels) != set(self.factors) or any(len(pair) != 2 for pair in levels.values()):
            raise ValueError(f"levels must give two values for each of {', '.join(self.factors)}")
        return [{f: levels[f][(sign + 1) // 2] for f, sign in zip(self.factors, run, strict=True)} for run in self.runs]


def full_factorial(levels: Mapping[str, Sequence[T]]) -> list[dict[str, T]]:
    """Every combination, the last factor changing fastest.

    Args:
        levels: what each factor can be, for any number of levels each.

    Raises:
        ValueError: a factor has fewer than two levels, or one twice.
    """
    for factor, values in levels.items():
        if len(values) < 2 or any(a == b for a, b in combinations(values, 2)):
            raise ValueError(f"factor {factor!r} has levels {list(values)}; it needs two or more, all different")
    return [dict(zip(levels, run, strict=True)) for run in product(*levels.values())]


def fraction(factors: Sequence[str], generators: Mapping[str, Sequence[str]] | None = None) -> Fraction:
    """A 2^(k-p) fraction of resolution IV or more: no main effect is aliased with a two-way interaction.

    The factors without a generator run through every combination; each other one is set to the product of
    its generator. By default the base is the smallest that can do it: with k = b + 1 the last factor is the
    product of all b, else each is the product of an odd number, three or more, of the b.
    Odd products keep every word even, hence of length four or more.

    Args:
        factors: names, four or more. Five take 16 runs (resolution V), six to eight 16 runs.
        generators: for chosen factors, the base factors whose product sets them, {"E": ("A", "B", "C")}.

    Returns:
        The runs with their defining words and aliases.

    Raises:
        ValueError: too few factors, a generator that is not of base factors, or a resolution under IV.

    Source: Box and Hunter 1961.
    """
    names = tuple(factors)
    if len(names) < 4 or len(set(names)) < len(names):
        raise ValueError(f"a fraction needs four or more different factors, not {list(names)}; see full_factorial")
    made = {f: tuple(g) for f, g in (generators or _default_generators(names)).items()}
    base = [f for f in names if f not in made]
    for factor, generator in made.items():
        if factor not in names or not generator or not set(generator) <= set(base):
            raise ValueError(f"generator {factor} = {' '.join(generator)} must be a product of {', '.join(base)}")
    words = _defining_words(names, made)
    resolution = min((len(word) for word in words), default=len(names) + 1)
    if resolution < 4:
        raise ValueError(
            f"the word {' '.join(words[0])} has length {resolution}, so a main effect is aliased with an interaction "
            "of one or two factors; choose generators of three or more factors that differ in two or more"
        )
    return Fraction(names, _runs(names, base, made), made, words, resolution, _aliases(names, words))


def _default_generators(names: Word) -> dict[str, Word]:
    b = next(b for b in range(3, len(names)) if len(names) <= 2 ** (b - 1))
    base, rest = names[:b], names[b:]
    if len(rest) == 1:
        return {rest[0]: base}
    odd = (chosen for size in range(3, b + 1, 2) for chosen in combinations(base, size))
    return dict(zip(rest, islice(odd, len(rest)), strict=True))


def _runs(names: Word, base: list[str], made: Mapping[str, Word]) -> tuple[tuple[int, ...], ...]:
    rows = []
    for signs in product((-1, 1), repeat=len(base)):
        at = dict(zip(base, signs, strict=True))
        at |= {f: prod(at[g] for g in generator) for f, generator in made.items()}
        rows.append(tuple(at[f] for f in names))
    return tuple(rows)


def _defining_words(names: Word, made: Mapping[str, Word]) -> tuple[Word, ...]:
    """All products of the words factor * generator; a factor twice in a product drops out."""
    words: list[frozenset[str]] = [frozenset()]
    for factor, generator in made.items():
        own = frozenset({factor, *generator})
        words += [word ^ own for word in words]
    ordered = [tuple(f for f in names if f in word) for word in words[1:]]
    return tuple(sorted(ordered, key=lambda word: (len(word), [names.index(f) for f in word])))


def _aliases(names: Word, words: tuple[Word, ...]) -> dict[Word, tuple[Word, ...]]:
    effects = [(f,) for f in names] + list(combinations(names, 2))
    found = {}
    for effect in effects:
        partners = {frozenset(effect) ^ frozenset(word) for word in words}
        found[effect] = tuple(other for other in effects if frozenset(other) in partners)
    return {effect: others for effect, others in found.items() if others}
