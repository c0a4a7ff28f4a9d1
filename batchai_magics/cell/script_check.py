"""Checks that a cell is a script: its syntax errors name the line of the cell, and what to write instead."""

from __future__ import annotations

import ast
import re
import shlex
import warnings

from batchai_magics.errors import ScriptError, UsageError

_FIRST_LINE = 2  # of the body in its cell; the magic line is line 1
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


def _syntax_error(error: SyntaxError, body: str) -> ScriptError:
    number = max(error.lineno or 1, 1)
    lines = re.split(r"\r\n|\r|\n", body)
    text = lines[min(number, len(lines)) - 1]
    line = number + _FIRST_LINE - 1
    message = f"the script has a syntax error at line {line} of the cell: {error.msg}"
    caret = _line_with_caret(text, (error.offset or 1) - 1)
    return ScriptError(f"{message}\n{caret}", line=line, hint=_syntax_hint(text, error.msg))


_PLAIN = "the script is plain Python"
_INSTALL = re.compile(r"[!%]+\s*(?:python3? -m |uv )?(?:pip3?|conda|mamba) install\s+(?P<packages>.+)")
_COMMAND = re.compile(r"(?:[\w, ]+=\s*)?!+(?P<command>.+)")
_SETTING = re.compile(r"%(?:set_)?env\s+(?P<name>\w+)[= ](?P<value>.+)")
_MAGIC = re.compile(r"(?:[\w, ]+=\s*)?%|\?|.*\?$")


def _syntax_hint(text: str, message: str) -> str:
    """What to write instead of what only a notebook understands; empty for any other error."""
    line = text.strip()
    if "outside" in message and re.search(r"\bawait\b|\basync\b", line):
        return "a script has no event loop: put this into `async def main()`, and call asyncio.run(main())"
    if found := _INSTALL.match(line):
        return f"packages are options of the job: {_install_options(found['packages'])}"
    if found := _SETTING.match(line):
        value = shlex.quote(found["value"].strip())
        return f"variables are options of the job: --env {found['name']}={value}"
    if found := _COMMAND.match(line):
        return f"{_PLAIN}: --prep {shlex.quote(found['command'].strip())} runs this on each node"
    return f"{_PLAIN}: lines with !, % or ? belong in another cell" if _MAGIC.match(line) else ""


def _install_options(text: str) -> str:
    """The options that install what a line of pip does."""
    words = text.split()
    if "-r" in words[:-1]:
        file = words[words.index("-r") + 1]
        return f"--upload {file} --prep 'pip install {text.strip()}'"
    packages = (word.strip("\"'") for word in words if not word.startswith("-"))
    return " ".join(f"--with {shlex.quote(word)}" for word in packages)


def _line_with_caret(text: str, column: int) -> str:
    """The line, cut around `column` if long, with a caret below."""
    at = len(text[: max(column, 0)].expandtabs(4))
    start = max(at - _WIDTH + 10, 0)
    shown = text.expandtabs(4)[start : start + _WIDTH]
    return f"    {shown}\n    {' ' * (at - start)}^"
