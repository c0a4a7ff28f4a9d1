"""The script of a cell: syntax errors, file name, whether it has a result, the Python that it asks for."""

from __future__ import annotations

import ast
import hashlib
import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from batchai_magics.cell.cell_job_spec import INPUT, OF_CELL
from batchai_magics.cell.cell_options import CellOptions
from batchai_magics.cell.compiled_script import CompiledScript
from batchai_magics.cell.python_env import EXTENDED, ISOLATED
from batchai_magics.errors import ScriptError, UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_FIRST_LINE = 2  # of the body in its cell; the magic line is line 1
_WIDTH = 100  # displayed width of a long line
_WRITE = "write the training script below the magic line"


def compile_script(body: str) -> CompiledScript:
    """Compiles a cell's script; raises UsageError for an empty cell, ScriptError for invalid Python."""
    if not body.strip():
        raise UsageError("the cell is empty", hint=_WRITE)
    try:
        script = CompiledScript.of(body)
    except SyntaxError as error:
        raise _syntax_error(error, body) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise ScriptError(f"the script cannot be read as Python: {error}", line=_FIRST_LINE) from None
    if all(not line or line.startswith("#") for line in map(str.strip, body.splitlines())):
        raise UsageError("the cell holds nothing but comments", hint=_WRITE)
    return script


def _syntax_error(error: SyntaxError, body: str) -> ScriptError:
    number = max(error.lineno or 1, 1)
    lines = re.split(r"\r\n|\r|\n", body)
    text = lines[min(number, len(lines)) - 1]
    line = number + _FIRST_LINE - 1
    message = f"the script has a syntax error at line {line} of the cell: {error.msg}"
    column = (error.offset or 1) - 1
    at = len(text[: max(column, 0)].expandtabs(4))
    start = max(at - _WIDTH + 10, 0)
    shown = text.expandtabs(4)[start : start + _WIDTH]
    caret = f"    {shown}\n    {' ' * (at - start)}^"
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
    if match := _INSTALL.match(line):
        words = match["packages"].split()
        packages = (word.strip("\"'") for word in words if not word.startswith("-"))
        options = " ".join(f"--with {shlex.quote(word)}" for word in packages)
        if "-r" in words[:-1]:
            file = words[words.index("-r") + 1]
            options = f"--upload {file} --prep 'pip install {match['packages'].strip()}'"
        return f"packages are options of the job: {options}"
    if match := _SETTING.match(line):
        value = shlex.quote(match["value"].strip())
        return f"variables are options of the job: --env {match['name']}={value}"
    if match := _COMMAND.match(line):
        return f"{_PLAIN}: --prep {shlex.quote(match['command'].strip())} runs this on each node"
    return f"{_PLAIN}: lines with !, % or ? belong in another cell" if _MAGIC.match(line) else ""


RESULT_NAME = "result"
_OWN_SCOPE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def nodes_of(script: str) -> list[ast.AST]:
    """The syntax nodes of a script, the module first; none of invalid Python."""
    module = _module_of(script)
    return list(ast.walk(module)) if module else []


def _module_of(script: str) -> ast.Module | None:
    try:
        return ast.parse(script)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # `compile_script` or the run reports it
        return None


def sets_result(script: CompiledScript) -> bool:
    """Whether the script assigns its global `result`."""
    if RESULT_NAME in script.declared_names:
        return True
    module = _module_of(script.text) if RESULT_NAME in script.bound_names else None
    pending: list[ast.AST] = [module] if module else []  # of the global scope
    while pending:
        node = pending.pop()
        if _assigns_result(node):
            return True
        pending += [child for child in ast.iter_child_nodes(node) if not isinstance(child, _OWN_SCOPE)]
    return False


def _assigns_result(node: ast.AST) -> bool:
    """Whether a statement assigns `result`; loop variables and imports do not count."""
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, (ast.AugAssign, ast.NamedExpr)) or (isinstance(node, ast.AnnAssign) and node.value):
        targets = [node.target]
    names = (part for target in targets for part in ast.walk(target) if isinstance(part, ast.Name))
    return any(name.id == RESULT_NAME and isinstance(name.ctx, ast.Store) for name in names)


def script_file(job: str, body: str) -> str:
    """The file name of a cell's script: the job's, unless a module that the script needs has that name."""
    names = set(sys.stdlib_module_names)
    for node in nodes_of(body) if job in body else ():
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add((node.module or "").partition(".")[0])
    return f"{job}{OF_CELL if job in names else ''}.py"


PROGRAM = "python_env.py"  # runs on the nodes
FOLDER = "environments"  # of the share
_BLOCK = re.compile(r"(?m)^# /// script$\s(?P<content>(^#(| .*)$\s)+)^# ///$")  # as PEP 723 says
_DIGEST_LENGTH = 12


@dataclass(frozen=True)
class ScriptMetadata:
    """What a script's PEP 723 block asks for."""

    packages: tuple[str, ...]
    python: str = ""  # requires-python


def script_metadata(script: str) -> ScriptMetadata | None:
    """The PEP 723 block of a script; None for a script without one.

    Raises:
        UsageError: The block is not valid.
    """
    match = _BLOCK.search(script)
    if not match:
        return None
    lines = match["content"].splitlines()
    try:
        data = tomllib.loads("\n".join(line[2:] if line.startswith("# ") else line[1:] for line in lines))
        packages, python = data.get("dependencies", []), data.get("requires-python", "")
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"the script's block `# /// script` is not valid: {error}") from None
    if not (isinstance(packages, list) and all(isinstance(text, str) for text in (*packages, python))):
        raise UsageError("the script's block `# /// script` is not valid: dependencies are a list of texts")
    return ScriptMetadata(tuple(packages), python)


def with_environment(
    asked: CellOptions, script: str, share_path: str
) -> tuple[CellOptions, Mapping[str, bytes]]:
    """The options with the Python of the ranks and what makes it, and the program for that.

    Raises:
        UsageError: The options or the script's block are wrong.
    """
    metadata = None if asked.python else script_metadata(script)
    if asked.python and asked.packages:
        raise UsageError("--python and --with are both given", hint="Install the packages into that Python.")
    if not (metadata or asked.packages):
        return asked, {}
    packages = tuple(dict.fromkeys((*(metadata.packages if metadata else ()), *asked.packages)))
    words = (ISOLATED if metadata else EXTENDED, metadata.python if metadata else "", *packages)
    digest = hashlib.sha256("\0".join(words).encode()).hexdigest()[:_DIGEST_LENGTH]
    folder = f"{share_path}/{FOLDER}/{digest}"
    making = f'mkdir -p "{share_path}/{FOLDER}" && python "{INPUT}/{PROGRAM}" "{folder}" {shlex.join(words)}'
    changed = replace(
        asked,
        python=f"{folder}/bin/python",
        prep=" && ".join(filter(None, (making, asked.prep))),
    )
    return changed, {PROGRAM: Path(__file__).with_name(PROGRAM).read_bytes()}
