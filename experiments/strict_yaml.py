"""YAML without its surprises: the YAML 1.2 core scalars, no duplicate keys, and the line of every key."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from experiments.config import ConfigError

_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?\Z")


@dataclass(frozen=True)
class Document:
    """A parsed file: its content and the 1-based line of every dotted path."""

    tree: Any
    lines: dict[str, int] = field(default_factory=dict)

    def line(self, path: str) -> int | None:
        """The line of a path, or of its nearest parent that stands in the file."""
        while path:
            if path in self.lines:
                return self.lines[path]
            path = path.rpartition(".")[0]
        return None


def parse(text: str, source: str = "<text>") -> Document:
    """Reads one YAML document.

    Raises:
        ConfigError: not YAML, a duplicate key, or a key that is not text; the message says file and line.
    """
    lines: dict[str, int] = {}
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{source}:{mark.line + 1}" if mark else source
        raise ConfigError([(where, str(getattr(error, "problem", None) or error))]) from None
    return Document(_value(node, "", source, lines), lines)


def scalar(text: str) -> Any:
    """What one unquoted word means: null, true, false, a number, or text (`none` and `no` are text)."""
    word = text.strip()
    if word in ("", "null", "~"):
        return None
    if word in ("true", "false"):
        return word == "true"
    if _NUMBER.match(word):
        return int(word) if re.fullmatch(r"[-+]?\d+", word) else float(word)
    return text


def _value(node: yaml.Node | None, path: str, source: str, lines: dict[str, int]) -> Any:
    if node is None:
        return None
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, path, source, lines)
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, path, source, lines) for item in node.value]
    return scalar(node.value) if getattr(node, "style", None) is None else node.value


def _mapping(node: yaml.MappingNode, path: str, source: str, lines: dict[str, int]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            raise ConfigError([(f"{source}:{line}", "a key must be plain text")])
        key = str(key_node.value)
        if key in tree:
            raise ConfigError([(f"{source}:{line}", f"the key '{key}' is given twice")])
        inner = f"{path}.{key}" if path else key
        lines.setdefault(inner, line)
        tree[key] = _value(value_node, inner, source, lines)
    return tree
