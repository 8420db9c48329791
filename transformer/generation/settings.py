"""How text is decoded: the settings and the words for them on a command line. Torch-free."""

from __future__ import annotations

import json
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from transformer.config import ConfigError, Frozen
from transformer.registry import did_you_mean, unknown

COMMON = ("max_new_tokens", "repetition_penalty", "no_repeat_ngram", "eos_id", "pad_id", "seed")
OPTIONS = {
    "greedy": COMMON,
    "sample": ("temperature", "top_k", "top_p", "n_best", *COMMON),
    "beam": ("beams", "length_penalty", "early_stopping", "n_best", *COMMON),
}
PRESETS: dict[str, dict[str, Any]] = {"greedy": {}, "sample": {"temperature": 1.0}, "beam": {"beams": 4}}


class Decode(Frozen):
    """Settings of one decoding; the defaults are greedy.

    Attributes:
        max_new_tokens: most tokens to add to a prompt, the end token included.
        temperature: logits are divided by it before sampling; 0 = the likeliest token, always.
        top_k: sample only among tokens at least as likely as the k-th (ties stay); None = all.
        top_p: sample only among the fewest likeliest tokens whose probabilities reach p; None = all.
        repetition_penalty: above 1 makes tokens that the prompt or the new text already holds less likely.
        no_repeat_ngram: n = no n tokens in a row twice; None = no such rule.
        beams: beam search with so many beams; None = no beam search.
        length_penalty: a finished beam scores sum(log p) / length^length_penalty; above 0 favours longer text.
        early_stopping: beam search ends when `beams` hypotheses have finished (True), when the best running beam
            could not win at its present length (False), or at no length up to the longest ("never").
        n_best: texts for each prompt: the best of a beam search, or independent samples.
        eos_id: the token that ends a text; None = every text has max_new_tokens.
        pad_id: what fills a row after its end.
        seed: names the random stream of sampling.
    """

    max_new_tokens: int = Field(default=32, ge=1)
    temperature: float = Field(default=0.0, ge=0)
    top_k: int | None = Field(default=None, ge=1)
    top_p: float | None = Field(default=None, gt=0, le=1)
    repetition_penalty: float = Field(default=1.0, gt=0)
    no_repeat_ngram: int | None = Field(default=None, ge=1)
    beams: int | None = Field(default=None, ge=1)
    length_penalty: float = 1.0
    early_stopping: Literal[True, False, "never"] = False
    n_best: int = Field(default=1, ge=1)
    eos_id: int | None = Field(default=None, ge=0)
    pad_id: int = Field(default=0, ge=0)
    seed: int = Field(default=0, ge=0)

    @property
    def method(self) -> str:
        """`greedy`, `sample` or `beam`."""
        if self.beams is not None:
            return "beam"
        return "sample" if self.temperature > 0 else "greedy"

    @model_validator(mode="after")
    def _every_setting_has_an_effect(self) -> Self:
        idle = [name for name in self._changed() if name not in OPTIONS[self.method]]
        if idle:
            raise ConfigError([(name, _idle(self, name)) for name in idle])
        if self.beams is not None and self.n_best > self.beams:
            raise ConfigError([("n_best", f"{self.n_best} texts cannot come from beams={self.beams}; raise beams")])
        return self

    def _changed(self) -> list[str]:
        return [name for name, field in type(self).model_fields.items() if getattr(self, name) != field.default]

    def __str__(self) -> str:
        """The text that `parse` reads back, such as `sample,temperature=0.8,top_p=0.9`."""
        shown = {*self._changed(), *PRESETS[self.method]}
        given = [name for name in OPTIONS[self.method] if name in shown]
        return ",".join([self.method, *(f"{name}={_word(getattr(self, name))}" for name in given)])

    @classmethod
    def parse(cls, text: str) -> Self:
        """Settings from `METHOD,option=value,...`: `greedy`, `sample,top_p=0.9`, `beam,beams=4,length_penalty=0.6`.

        Raises:
            ConfigError: an unknown method or option, an option of another method, or a value that does not fit.
        """
        method, *parts = [part.strip() for part in text.split(",")]
        if method not in OPTIONS:
            raise ConfigError([("", unknown("decoding", method, OPTIONS))])
        values: dict[str, Any] = dict(PRESETS[method])
        problems: list[tuple[str, str]] = []
        seen: set[str] = set()
        for part in parts:
            name, equals, word = (piece.strip() for piece in part.partition("="))
            problem = _problem(method, part, name, equals, seen)
            problems += [("", problem)] if problem else []
            values[name] = _value(word)
            seen.add(name)
        if problems:
            raise ConfigError(problems)
        return cls(**values)


def _problem(method: str, part: str, name: str, equals: str, seen: set[str]) -> str | None:
    if not (name and equals):
        return f"{part!r} in a decoding must be written option=value, such as sample,temperature=0.8"
    if name in seen:
        return f"option '{name}' of decoding '{method}' is given twice"
    if name in OPTIONS[method]:
        return None
    owners = [other for other, options in OPTIONS.items() if name in options]
    if owners:
        only = f"only {' and '.join(owners)} {'has' if len(owners) == 1 else 'have'}"
        return f"decoding '{method}' has no option '{name}', {only}; it has: {_list(method)}"
    near = did_you_mean(name, OPTIONS[method])
    return f"unknown option '{name}' of decoding '{method}'. {near}Known: {_list(method)}"


def _list(method: str) -> str:
    return ", ".join(OPTIONS[method])


def _value(word: str) -> Any:
    try:
        return json.loads({"True": "true", "False": "false", "None": "null", "none": "null"}.get(word, word))
    except ValueError:
        return word


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _idle(decode: Decode, name: str) -> str:
    ways = {
        "beam": "leave it out, or leave beams out",
        "greedy": "set beams for beam search" if name in OPTIONS["beam"][:3] else "set temperature above 0 to sample",
        "sample": "set temperature to 0 and beams for beam search",
    }
    return f"{getattr(decode, name)!r} changes nothing in {decode.method} decoding; {ways[decode.method]}"
