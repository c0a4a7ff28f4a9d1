"""Whether a cell's script sets a `result`, which comes back to the notebook."""

from __future__ import annotations

import ast
from collections.abc import Iterator

NAME = "result"
_OWN_SCOPE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def sets_result(body: str) -> bool:
    """Whether the script assigns its global `result`; False for what is no Python."""
    try:
        tree = ast.parse(body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # told by the check of the script
        return False
    is_declared = any(isinstance(node, ast.Global) and NAME in node.names for node in ast.walk(tree))
    return is_declared or any(NAME in _assigned(node) for node in _of_module(tree))


def _of_module(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of the script that run in its global scope."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, _OWN_SCOPE):
            yield child
            yield from _of_module(child)


def _assigned(node: ast.AST) -> set[str]:
    """The names that a statement assigns; those of loops and imports are no results."""
    parts = [part for target in _targets(node) for part in ast.walk(target)]
    return {part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}


def _targets(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Assign):
        return node.targets
    if isinstance(node, (ast.AugAssign, ast.NamedExpr)):
        return [node.target]
    return [node.target] if isinstance(node, ast.AnnAssign) and node.value else []
