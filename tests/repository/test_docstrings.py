"""What docstrings say of arguments, attributes and errors is true of the code."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import pytest

import batchai_magics

PACKAGE = Path(batchai_magics.__file__).parent
ITEM = re.compile(r"^    \*{0,2}([\w.]+)(?: \([^)]*\))?:", re.MULTILINE)
SECTION = re.compile(r"^(\w+):\n((?:    .*\n?|\n)+)", re.MULTILINE)


class Documented(NamedTuple):
    """A function or class with a docstring, in its module."""

    module: ast.Module
    node: ast.FunctionDef | ast.ClassDef
    place: str


@lru_cache(maxsize=1)
def documented() -> tuple[Documented, ...]:
    return tuple(_documented())


def _documented() -> Iterator[Documented]:
    for path in sorted(PACKAGE.rglob("*.py")):
        module = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(module):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node):
                yield Documented(module, node, f"{path.relative_to(PACKAGE)}:{node.lineno} {node.name}")


def items(node: ast.FunctionDef | ast.ClassDef, section: str) -> list[str]:
    """The names that a section of a docstring describes."""
    sections = dict(SECTION.findall(f"{ast.get_docstring(node)}\n"))
    return ITEM.findall(sections.get(section, ""))


def parameters(node: ast.FunctionDef | ast.ClassDef) -> set[str]:
    if isinstance(node, ast.ClassDef):
        return set().union(*(parameters(item) for item in node.body if isinstance(item, ast.FunctionDef)))
    arguments = node.args
    several = [arg for arg in (arguments.vararg, arguments.kwarg) if arg]
    return {arg.arg for arg in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *several)}


def attributes(node: ast.ClassDef) -> set[str]:
    """The names bound in the class body and on `self`."""
    fields = (item.target for item in node.body if isinstance(item, ast.AnnAssign))
    bound = (item for item in ast.walk(node) if isinstance(item, ast.Attribute))
    return {
        *(field.id for field in fields if isinstance(field, ast.Name)),
        *(item.attr for item in bound if isinstance(item.ctx, ast.Store)),
        *(item.name for item in node.body if isinstance(item, ast.FunctionDef)),
    }


def is_error(name: str, module: ast.Module) -> bool:
    """Whether a name is an error of Python, of a class here or, dotted, of another library."""
    library, _, last = name.rpartition(".")
    kind = getattr(importlib.import_module(library or "builtins"), last, None)
    is_known = isinstance(kind, type) and issubclass(kind, BaseException)
    own = {each.node.name for each in documented() if isinstance(each.node, ast.ClassDef)}
    imported = (alias for node in module.body if isinstance(node, ast.ImportFrom) for alias in node.names)
    return is_known or name in own | {alias.name for alias in imported}


def test_described_arguments_match_the_signature() -> None:
    wrong = [
        f"{each.place}: {name}"
        for each in documented()
        for name in items(each.node, "Args")
        if name not in parameters(each.node)
    ]
    assert wrong == []


def test_described_attributes_match_the_class() -> None:
    wrong = [
        f"{each.place}: {name}"
        for each in documented()
        if isinstance(each.node, ast.ClassDef)
        for name in items(each.node, "Attributes")
        if name not in attributes(each.node)
    ]
    assert wrong == []


def test_described_errors_exist() -> None:
    wrong = [
        f"{each.place}: {name}"
        for each in documented()
        for name in items(each.node, "Raises")
        if not is_error(name, each.module)
    ]
    assert wrong == []


@pytest.mark.parametrize("section", ["Args", "Attributes", "Raises"])
def test_there_are_such_sections(section: str) -> None:
    assert sum(bool(items(each.node, section)) for each in documented()) > 10
