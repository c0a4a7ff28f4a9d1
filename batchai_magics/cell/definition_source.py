"""The source of what a notebook or module defines: functions, classes, and what is assigned to a name."""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
import textwrap
import types
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

_BLOCKS = ("body", "orelse", "finalbody", "handlers")  # where a statement holds others
_OWN_SCOPE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Definition(NamedTuple):
    """A statement that defines a name: its text, its file or its cell (`In[3]`), and its line there."""

    text: str
    file: str
    line: int


class _Source(NamedTuple):
    """Python code: a file or a cell, and its text."""

    file: str
    text: str


def definition_source(name: str, thing: Any, names: Mapping[str, Any]) -> Definition | None:
    """The statement that defines a global name, with its decorators; None if it is not known.

    Args:
        name: The name.
        thing: What it stands for.
        names: The global names of the notebook or module.
    """
    if _is_function(name, thing):
        return _inspected(thing, names) or _statement(name, _cells(names))
    if isinstance(thing, type) and thing.__name__ == name:
        is_of_file = not _cells(names)
        found = _inspected(thing, names) if is_of_file else None
        return found or _statement(name, _class_sources(thing, names))
    return _statement(name, [*_cells(names), *_module(names)])


def _is_function(name: str, thing: Any) -> bool:
    """Whether it is a function of that name with a source of its own, maybe in a decorator that names it."""
    function = inspect.unwrap(thing) if callable(thing) else thing
    is_function = isinstance(function, types.FunctionType) and function.__name__ == name
    return is_function and not function.__code__.co_freevars


def _inspected(thing: Any, names: Mapping[str, Any]) -> Definition | None:
    try:
        own = inspect.unwrap(thing)
        lines, first = inspect.getsourcelines(own)
        file = inspect.getsourcefile(own) or ""
    except (OSError, TypeError):
        return None
    return Definition(textwrap.dedent("".join(lines)), _shown_file(file, names), first)


def _shown_file(file: str, names: Mapping[str, Any]) -> str:
    """A file as the user calls it: a cell by its number, a file below the working directory by that path."""
    text = "".join(linecache.getlines(file)).strip()
    cell = next((cell.file for cell in _cells(names) if cell.text.strip() == text), "")
    path, here = Path(file), Path.cwd()
    return cell or (path.relative_to(here).as_posix() if path.is_relative_to(here) else file)


def _cells(names: Mapping[str, Any]) -> list[_Source]:
    """The cells of a notebook, the newest first; empty for a module."""
    cells = names.get("In")
    numbered = list(enumerate(cells)) if isinstance(cells, list) else []
    return [_Source(f"In[{n}]", cell) for n, cell in reversed(numbered) if isinstance(cell, str)]


def _module(names: Mapping[str, Any]) -> list[_Source]:
    module = sys.modules.get(names.get("__name__", ""))
    try:
        file = _shown_file(inspect.getsourcefile(module) or "", names) if module else ""
        return [_Source(file, inspect.getsource(module))] if module else []
    except (OSError, TypeError):  # it has no file
        return []


def _class_sources(thing: type, names: Mapping[str, Any]) -> Iterator[_Source]:
    """The cell that a method of the class comes from, then all cells."""
    for value in vars(thing).values():
        function = getattr(value, "__func__", None) or getattr(value, "fget", None) or value
        code = getattr(function, "__code__", None)
        if code and function.__qualname__.startswith(f"{thing.__qualname__}."):
            lines = linecache.getlines(code.co_filename)
            yield _Source(_shown_file(code.co_filename, names), "".join(lines))
    yield from _cells(names)


def _statement(name: str, sources: Iterable[_Source]) -> Definition | None:
    """The last statement that binds a name, of the first source with one."""
    for source in sources:
        try:
            found = [made for made, node in _statements(source) if name in _bound(node)]
        except (SyntaxError, ValueError):  # a cell that never ran
            continue
        if found:
            return found[-1]
    return None


def _statements(source: _Source, before: int = 0) -> Iterator[tuple[Definition, ast.stmt]]:
    """The statements of the global scope; those below a magic such as `%%time`, too.

    `before` is the number of lines before the source in its cell.
    """
    lines = source.text.splitlines(keepends=True)
    waiting: list[ast.AST] = list(reversed(ast.parse(source.text).body))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.stmt):
            first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
            text = textwrap.dedent("".join(lines[first - 1 : node.end_lineno])).rstrip() + "\n"
            yield Definition(text, source.file, before + first), node
        if (body := _magic_body(node)) is not None:
            yield from _statements(_Source(source.file, body), before=1)
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
