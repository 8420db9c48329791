"""What is registered, read from the source without importing it, so that `list` needs neither torch nor data."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

REGISTRIES = {
    "POSITIONAL": "positional", "ATTENTION": "attention", "SCALING": "scaling", "FEEDFORWARD": "feedforward",
    "NORM": "norm", "PLACEMENT": "placement", "INIT": "init", "TASKS": "task", "SCHEDULES": "schedule",
    "SAMPLING": "scheduled_sampling",
}


@dataclass(frozen=True)
class Listed:
    """One registered class.

    Attributes:
        kind: slot, `task` or `schedule`. name: what configs say. summary: first sentence of its docstring.
        options: option name -> default as written. paper: source, or "".
    """

    kind: str
    name: str
    summary: str
    options: dict[str, str]
    paper: str


def index(place: Path) -> list[Listed]:
    """Every class in a file or below a folder that carries a `@REGISTRY.register("name")` decorator, by kind, name."""
    found: list[Listed] = []
    for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
        found += _registered(ast.parse(path.read_text(encoding="utf-8")))
    return sorted(found, key=lambda one: (one.kind, one.name))


def _registered(tree: ast.Module) -> Iterator[Listed]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            for decorator in node.decorator_list:
                named = _registration(decorator)
                if named:
                    yield Listed(*named[:2], _summary(node), _options(node, tree), named[2])


def _registration(node: ast.expr) -> tuple[str, str, str] | None:
    """(kind, name, paper) of a `REGISTRY.register("name", paper="...")` decorator."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "register"):
        return None
    owner, first = node.func.value, node.args[0] if node.args else None
    if not (isinstance(owner, ast.Name) and owner.id in REGISTRIES and isinstance(first, ast.Constant)):
        return None
    words = {k.arg: k.value.value for k in node.keywords if isinstance(k.value, ast.Constant)}
    return REGISTRIES[owner.id], str(first.value), str(words.get("paper") or "")


def _summary(node: ast.ClassDef) -> str:
    return (ast.get_docstring(node) or "").strip().split("\n\n")[0].replace("\n", " ")


def _options(node: ast.ClassDef, tree: ast.Module) -> dict[str, str]:
    for part in node.body:
        if isinstance(part, ast.FunctionDef) and part.name == "__init__":
            pairs = zip(part.args.kwonlyargs, part.args.kw_defaults, strict=True)
            return {argument.arg: ast.unparse(default) if default else "(needed)" for argument, default in pairs}
    parents = [base.id for base in node.bases if isinstance(base, ast.Name)]
    siblings = [one for one in tree.body if isinstance(one, ast.ClassDef) and one.name in parents]
    return _options(siblings[0], tree) if siblings else {}
