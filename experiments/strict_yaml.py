"""YAML without its surprises: the YAML 1.2 core scalars, no tags or duplicate keys, and the line of every key."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from experiments.config import ConfigError

MOST_VALUES = 100_000  # aliases of aliases can grow a small file without end
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
        ConfigError: not YAML, a tag, a duplicate key, a key that is not text, an alias inside what it stands for, or
            more than MOST_VALUES values; the message says file and line.
    """
    try:
        _refuse_tags(text, source)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        reader = _Reader(source)
        return Document(reader.value(node, ""), reader.lines)
    except yaml.YAMLError as error:
        raise ConfigError([_yaml_problem(error, source)]) from None
    except RecursionError:
        raise ConfigError([(source, "is nested too deeply to be an experiment")]) from None


def scalar(text: str) -> Any:
    """What one unquoted word means: null, true, false, a number, or text (`none` and `no` are text)."""
    word = text.strip()
    if word in ("", "null", "~"):
        return None
    if word in ("true", "false"):
        return word == "true"
    if _NUMBER.match(word):
        return _number(word)
    return text


def _number(word: str) -> int | float | str:
    try:
        return int(word) if re.fullmatch(r"[-+]?\d+", word) else float(word)
    except ValueError:  # Python reads no whole number of more than 4,300 digits
        return word


def _refuse_tags(text: str, source: str) -> None:
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        tag = getattr(event, "tag", None)
        if tag is not None:
            assert event.start_mark is not None
            where = f"{source}:{event.start_mark.line + 1}"
            raise ConfigError([(where, f"the tag '{tag}' is not read; write the plain value without it")])


def _yaml_problem(error: yaml.YAMLError, source: str) -> tuple[str, str]:
    mark = getattr(error, "problem_mark", None)
    where = f"{source}:{mark.line + 1}" if mark else source
    return where, str(getattr(error, "problem", None) or error).splitlines()[0]


class _Reader:
    """Turns nodes into plain values and notes the line of every key."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.lines: dict[str, int] = {}
        self.open: set[int] = set()  # the nodes that are being read: an alias to one of them would never end
        self.read = 0

    def value(self, node: yaml.Node | None, path: str) -> Any:
        if node is None:
            return None
        self.read += 1
        if self.read > MOST_VALUES:
            raise self._wrong(node, f"more than {MOST_VALUES:,} values, aliases included")
        if isinstance(node, yaml.ScalarNode):
            return scalar(node.value) if node.style is None else node.value
        if id(node) in self.open:
            raise self._wrong(node, "an alias stands inside what it stands for")
        self.open.add(id(node))
        if isinstance(node, yaml.MappingNode):
            inside: Any = self._mapping(node, path)
        else:
            inside = [self.value(item, path) for item in node.value]
        self.open.discard(id(node))
        return inside

    def _mapping(self, node: yaml.MappingNode, path: str) -> dict[str, Any]:
        tree: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise self._wrong(key_node, "a key must be plain text")
            key = str(key_node.value)
            if key == "<<" and key_node.style is None:
                raise self._wrong(key_node, "merge keys (<<) are not read; write the keys out")
            if key in tree:
                raise self._wrong(key_node, f"the key '{key}' is given twice")
            inner = f"{path}.{key}" if path else key
            self.lines.setdefault(inner, key_node.start_mark.line + 1)
            tree[key] = self.value(value_node, inner)
        return tree

    def _wrong(self, node: yaml.Node, text: str) -> ConfigError:
        return ConfigError([(f"{self.source}:{node.start_mark.line + 1}", text)])
