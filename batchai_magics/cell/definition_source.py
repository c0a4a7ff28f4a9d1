"""The source of what a notebook or module defines: functions, classes, and what is assigned to a name."""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
import textwrap
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_BLOCKS = ("body", "orelse", "finalbody", "handlers")  # where a statement holds others
_OWN_SCOPE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def definition_source(name: str, thing: Any, names: Mapping[str, Any]) -> str | None:
    """The statement that defines a global name, with its decorators; None if it is not known.

    Args:
        name: The name.
        thing: What it stands for.
        names: The global names of the notebook or module.
    """
    if _is_function(name, thing):
        return _inspected(thing) or _statement(name, _cells(names))
    if isinstance(thing, type) and thing.__name__ == name:
        is_of_file = not _cells(names)
        return (_inspected(thing) if is_of_file else None) or _statement(name, _class_sources(thing, names))
    return _statement(name, [*_cells(names), *_file(names)])


def _is_function(name: str, thing: Any) -> bool:
    """Whether it is a function of that name with a source of its own, maybe in a decorator that names it."""
    function = inspect.unwrap(thing) if callable(thing) else thing
    is_function = isinstance(function, types.FunctionType) and function.__name__ == name
    return is_function and not function.__code__.co_freevars


def _inspected(thing: Any) -> str | None:
    try:
        return textwrap.dedent(inspect.getsource(inspect.unwrap(thing)))
    except (OSError, TypeError):
        return None


def _cells(names: Mapping[str, Any]) -> list[str]:
    """The cells of a notebook, the newest first; empty for a module."""
    cells = names.get("In")
    return [cell for cell in reversed(cells) if isinstance(cell, str)] if isinstance(cells, list) else []


def _file(names: Mapping[str, Any]) -> list[str]:
    module = sys.modules.get(names.get("__name__", ""))
    try:
        return [inspect.getsource(module)] if module else []
    except (OSError, TypeError):  # it has no file
        return []


def _class_sources(thing: type, names: Mapping[str, Any]) -> Iterator[str]:
    """The cell that a method of the class comes from, then all cells."""
    for value in vars(thing).values():
        function = getattr(value, "__func__", None) or getattr(value, "fget", None) or value
        code = getattr(function, "__code__", None)
        if code and function.__qualname__.startswith(f"{thing.__qualname__}."):
            yield "".join(linecache.getlines(code.co_filename))
    yield from _cells(names)


def _statement(name: str, sources: Iterable[str]) -> str | None:
    """The last statement that binds a name, of the first source with one."""
    for source in sources:
        try:
            found = [text for text, node in _statements(source) if name in _bound(node)]
        except (SyntaxError, ValueError):  # a cell that never ran
            continue
        if found:
            return found[-1]
    return None


def _statements(source: str) -> Iterator[tuple[str, ast.stmt]]:
    """The statements of the global scope with their texts; those below a magic such as `%%time`, too."""
    lines = source.splitlines(keepends=True)
    waiting: list[ast.AST] = list(reversed(ast.parse(source).body))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.stmt):
            first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
            yield textwrap.dedent("".join(lines[first - 1 : node.end_lineno])).rstrip() + "\n", node
        if (body := _magic_body(node)) is not None:
            yield from _statements(body)
        elif not isinstance(node, _OWN_SCOPE):
            waiting += reversed([each for block in _BLOCKS for each in getattr(node, block, ())])


def _magic_body(node: ast.AST) -> str | None:
    """The cell below a magic, as IPython writes it: `get_ipython().run_cell_magic(NAME, LINE, BODY)`."""
    call = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(call, ast.Call) or getattr(call.func, "attr", "") != "run_cell_magic":
        return None
    body = call.args[-1] if call.args else None
    return body.value if isinstance(body, ast.Constant) and isinstance(body.value, str) else None


def _bound(node: ast.stmt) -> set[str]:
    """The names that a definition, an import or an assignment binds."""
    if isinstance(node, _OWN_SCOPE):
        return {node.name}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {each.asname or each.name for each in node.names}
    targets = node.targets if isinstance(node, ast.Assign) else []
    targets = [node.target] if isinstance(node, ast.AnnAssign) and node.value else targets
    return {each.id for each in targets if isinstance(each, ast.Name)}
