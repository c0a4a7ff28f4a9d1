"""The cell's script: checked before anything is sent, and named on the share by what it holds."""

from __future__ import annotations

import ast
import hashlib
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from batchai_magics.errors import ScriptError, UsageError

PROGRAM = "run_cell.py"  # what is started in the script's place, where that needs it
_FIRST_LINE = 2  # of the body in its cell; the magic line is line 1
_DIGEST_LENGTH = 12
_WIDTH = 100  # of the part of a line that is shown
_WRITE = "write the training script below the magic line"


def check_script(body: str) -> bytes:
    """The script's bytes; raises UsageError for an empty cell, ScriptError for what is no Python."""
    if not body.strip():
        raise UsageError("the cell is empty", hint=_WRITE)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they belong to the run, not to the check
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


def program() -> dict[str, bytes]:
    """The program that runs a script with variables, or for its result, by its file name."""
    return {PROGRAM: Path(__file__).with_name(PROGRAM).read_bytes()}


def _syntax_error(error: SyntaxError, body: str) -> ScriptError:
    number = max(error.lineno or 1, 1)
    lines = re.split(r"\r\n|\r|\n", body)
    text = lines[min(number, len(lines)) - 1]
    line = number + _FIRST_LINE - 1
    message = f"the script has a syntax error at line {line} of the cell: {error.msg}"
    is_magic = text.lstrip().startswith(("!", "%", "?"))
    hint = "the script is plain Python: lines with !, % or ? belong in another cell" if is_magic else ""
    return ScriptError(f"{message}\n{_pointed(text, (error.offset or 1) - 1)}", line=line, hint=hint)


def _pointed(text: str, column: int) -> str:
    """The line, or the part of a long one around `column`, with a caret below it."""
    at = len(text[: max(column, 0)].expandtabs(4))
    start = max(at - _WIDTH + 10, 0)
    shown = text.expandtabs(4)[start : start + _WIDTH]
    return f"    {shown}\n    {' ' * (at - start)}^"


@dataclass(frozen=True)
class Bundle:
    """What goes to the share for one job: a folder named by its content, and the files below it."""

    folder: str
    files: Mapping[str, bytes]

    @property
    def uploads(self) -> dict[str, bytes]:
        """Path on the share → content."""
        return {f"{self.folder}/{name}": data for name, data in self.files.items()}


def bundle(experiment: str, job: str, files: Mapping[str, bytes]) -> Bundle:
    """The folder `scripts/<experiment>/<job>/<digest>`: the same files always go to the same place."""
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(f"{name}\0{len(files[name])}\0".encode())
        digest.update(files[name])
    return Bundle(f"scripts/{experiment}/{job}/{digest.hexdigest()[:_DIGEST_LENGTH]}", dict(files))
