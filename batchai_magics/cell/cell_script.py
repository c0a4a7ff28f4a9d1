"""The cell's script: syntax check, whether it sets a `result`, and its folder on the share."""

from __future__ import annotations

import ast
import hashlib
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from batchai_magics.errors import ScriptError, UsageError

RUNNER_FILE = "run_cell.py"  # started in place of a script that needs variables or has a result
_FIRST_LINE = 2  # of the body in its cell; the magic line is line 1
_DIGEST_LENGTH = 12
_WIDTH = 100  # displayed width of a long line
_WRITE = "write the training script below the magic line"


def check_script(body: str) -> bytes:
    """The script's bytes; raises UsageError for an empty cell, ScriptError for invalid Python."""
    if not body.strip():
        raise UsageError("the cell is empty", hint=_WRITE)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the run will print them
            tree = ast.parse(body)
            compile(tree, "<cell>", "exec", dont_inherit=True)
        data = body.encode()
    except SyntaxError as error:
        raise _syntax_error(error, body) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise ScriptError(f"the script cannot be read as Python: {error}", line=_FIRST_LINE) from None
    if not tree.body:
        raise UsageError("the cell holds nothing but comments", hint=_WRITE)
    return data


def runner_program() -> dict[str, bytes]:
    """The content of `run_cell.py` by its file name."""
    return {RUNNER_FILE: Path(__file__).with_name(RUNNER_FILE).read_bytes()}


def _syntax_error(error: SyntaxError, body: str) -> ScriptError:
    number = max(error.lineno or 1, 1)
    lines = re.split(r"\r\n|\r|\n", body)
    text = lines[min(number, len(lines)) - 1]
    line = number + _FIRST_LINE - 1
    message = f"the script has a syntax error at line {line} of the cell: {error.msg}"
    is_magic = text.lstrip().startswith(("!", "%", "?"))
    hint = "the script is plain Python: lines with !, % or ? belong in another cell" if is_magic else ""
    return ScriptError(f"{message}\n{_line_with_caret(text, (error.offset or 1) - 1)}", line=line, hint=hint)


def _line_with_caret(text: str, column: int) -> str:
    """The line, cut around `column` if long, with a caret below."""
    at = len(text[: max(column, 0)].expandtabs(4))
    start = max(at - _WIDTH + 10, 0)
    shown = text.expandtabs(4)[start : start + _WIDTH]
    return f"    {shown}\n    {' ' * (at - start)}^"


@dataclass(frozen=True)
class Bundle:
    """The files uploaded for a job, in a folder named by their digest."""

    folder: str
    files: Mapping[str, bytes]

    @property
    def uploads(self) -> dict[str, bytes]:
        """Path on the share → content."""
        return {f"{self.folder}/{name}": data for name, data in self.files.items()}


def bundle(experiment: str, job: str, files: Mapping[str, bytes]) -> Bundle:
    """The bundle in `scripts/<experiment>/<job>/<digest>`; the same files always get the same folder."""
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(f"{name}\0{len(files[name])}\0".encode())
        digest.update(files[name])
    return Bundle(f"scripts/{experiment}/{job}/{digest.hexdigest()[:_DIGEST_LENGTH]}", dict(files))


RESULT_NAME = "result"
_OWN_SCOPE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def sets_result(body: str) -> bool:
    """Whether the script assigns its global `result`; False for invalid Python."""
    try:
        tree = ast.parse(body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # reported by check_script
        return False
    is_declared = any(isinstance(node, ast.Global) and RESULT_NAME in node.names for node in ast.walk(tree))
    return is_declared or any(RESULT_NAME in _assigned(node) for node in _module_scope(tree))


def _module_scope(node: ast.AST) -> Iterator[ast.AST]:
    """The syntax nodes that run in the script's global scope."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, _OWN_SCOPE):
            yield child
            yield from _module_scope(child)


def _assigned(node: ast.AST) -> set[str]:
    """The names assigned by a statement; loop variables and imports do not count."""
    parts = [part for target in _targets(node) for part in ast.walk(target)]
    return {part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}


def _targets(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Assign):
        return node.targets
    if isinstance(node, (ast.AugAssign, ast.NamedExpr)):
        return [node.target]
    return [node.target] if isinstance(node, ast.AnnAssign) and node.value else []
