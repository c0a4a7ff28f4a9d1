"""The script of a cell: syntax errors, file name, whether it has a result, the Python that it asks for.

The instructions of its code object say which global names it reads and binds.
"""

from __future__ import annotations

import ast
import hashlib
import re
import shlex
import sys
import types
import warnings
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from dis import EXTENDED_ARG, opmap
from pathlib import Path

from batchai_magics.cell.cell_job_spec import INPUT, OF_CELL
from batchai_magics.cell.cell_options import CellOptions
from batchai_magics.cell.python_env import EXTENDED, ISOLATED
from batchai_magics.errors import ScriptError, UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_FIRST_LINE = 2  # of the body in its cell; the magic line is line 1
_WIDTH = 100  # displayed width of a long line
_WRITE = "write the training script below the magic line"

_GLOBAL_READS = ("LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS")  # the second since Python 3.12
_READ_BY_CLASSES = {"__name__", "__annotations__"}  # by any class, for attributes of its own
_FLAG_BITS = {"LOAD_GLOBAL": 1} if sys.version_info >= (3, 11) else {}  # of an operand, below the index


@dataclass(frozen=True)
class CompiledScript:
    """A script that has no syntax error."""

    text: str
    code: types.CodeType

    @classmethod
    def of(cls, text: str, *, flags: int = 0) -> CompiledScript:
        """Compiles a script, without warnings, which the run will print; raises what `compile` raises."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return cls(text, compile(text, "<cell>", "exec", flags, dont_inherit=True))

    @property
    def bound_names(self) -> set[str]:
        """The names that are bound in the global scope."""
        return _names_of(self.code, "STORE_NAME") | self.declared_names

    @property
    def declared_names(self) -> set[str]:
        """Those that are bound where a `global` statement declares them."""
        return set().union(*(_names_of(code, "STORE_GLOBAL") for code in _code_objects(self.code)))

    def read_names(self, among: Collection[str]) -> set[str]:
        """Those of the names that are read from the global scope if they are bound there."""
        names: set[str] = set()
        for code in _code_objects(self.code):
            if not set(among).isdisjoint(code.co_names):
                read = _names_of(code, "LOAD_NAME")  # by the script itself or the body of a class
                if code is not self.code:
                    read -= _names_of(code, "STORE_NAME") | _READ_BY_CLASSES
                names |= read.union(*(_names_of(code, operation) for operation in _GLOBAL_READS))
        return names & set(among)


def _code_objects(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code object, then those of the functions and classes in it."""
    pending = [code]
    while pending:
        code = pending.pop()
        yield code
        pending += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]


def _names_of(code: types.CodeType, operation: str) -> set[str]:
    """The names that instructions of a kind refer to; `dis` says the same, and takes fifty times as long."""
    if sys.version_info >= (3, 14):  # what is read below was compared with `dis` up to 3.13
        import dis

        return {each.argval for each in dis.get_instructions(code) if each.opname == operation}
    if operation not in opmap:  # of this Python
        return set()
    opcode, names = opmap[operation], set()
    opcodes, operands = code.co_code[::2], code.co_code[1::2]
    at = opcodes.find(opcode)
    while at >= 0:
        index, shift, before = operands[at], 8, at - 1
        while before >= 0 and opcodes[before] == EXTENDED_ARG:
            index |= operands[before] << shift
            shift, before = shift + 8, before - 1
        names.add(code.co_names[index >> _FLAG_BITS.get(operation, 0)])
        at = opcodes.find(opcode, at + 1)
    return names


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
    for target in targets:
        for part in ast.walk(target):
            if isinstance(part, ast.Name) and part.id == RESULT_NAME and isinstance(part.ctx, ast.Store):
                return True
    return False


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
    options: CellOptions, script: str, share_path: str
) -> tuple[CellOptions, Mapping[str, bytes]]:
    """The options with the Python of the ranks and the command that creates it, and its program.

    Raises:
        UsageError: The options or the script's block are wrong.
    """
    metadata = None if options.python else script_metadata(script)
    if options.python and options.packages:
        raise UsageError("--python and --with are both given", hint="Install the packages into that Python.")
    if not (metadata or options.packages):
        return options, {}
    packages = tuple(dict.fromkeys((*(metadata.packages if metadata else ()), *options.packages)))
    words = (ISOLATED if metadata else EXTENDED, metadata.python if metadata else "", *packages)
    digest = hashlib.sha256("\0".join(words).encode()).hexdigest()[:_DIGEST_LENGTH]
    folder = f"{share_path}/{FOLDER}/{digest}"
    making = f'mkdir -p "{share_path}/{FOLDER}" && python "{INPUT}/{PROGRAM}" "{folder}" {shlex.join(words)}'
    changed = replace(
        options,
        python=f"{folder}/bin/python",
        prep=" && ".join(filter(None, (making, options.prep))),
    )
    return changed, {PROGRAM: Path(__file__).with_name(PROGRAM).read_bytes()}
