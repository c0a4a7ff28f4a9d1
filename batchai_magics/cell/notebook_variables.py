"""What a script needs of its notebook: the variables of `--use`, and remedies for what it may lack elsewhere.

A remedy is recorded with the run under the text that Python's error has: `name x`, `module helper`,
`file data/x.csv`.
"""

from __future__ import annotations

import builtins
import pickle
import pickletools
import re
import shlex
import types
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from batchai_magics.cell.cell_script import CompiledScript
from batchai_magics.cell.cell_uploads import is_excluded
from batchai_magics.cell.run_cell import MOST_BYTES, VARIABLES
from batchai_magics.errors import UsageError, did_you_mean
from batchai_magics.models.secret_masking import is_secret_name, is_secret_text

_WORD = re.compile(r"[^\W\d]\w*")
_BUILTINS = {*dir(builtins)} - {"display", "get_ipython"}  # which IPython adds


def variables_file(names: Sequence[str], variables: Mapping[str, object]) -> dict[str, bytes]:
    """The pickle file of the variables, by name; empty without names.

    Raises UsageError for a variable that is missing, looks like a secret, cannot be pickled, or is too large.
    """
    if not names:
        return {}
    for name in names:
        if name not in variables:
            hint = did_you_mean(name, variables) or "define it in a cell first"
            raise UsageError(f"--use {name}: there is no variable {name}", hint=hint)
        if is_secret_name(name) or holds_secret(variables[name]):
            text = f"--use {name}: it looks like a secret, which does not belong in a file on the share"
            raise UsageError(text, hint="put it into an environment variable, and name that with --secret")
    data = {name: _pickled(name, variables[name]) for name in names}
    size = sum(map(len, data.values()))
    if size > MOST_BYTES:
        largest = max(data, key=lambda name: len(data[name]))
        text = f"--use: {_mib(size)} is too much; the limit is {_mib(MOST_BYTES)}"
        hint = f"{largest} alone has {_mib(len(data[largest]))}: put it on the share, and read it there"
        raise UsageError(text, hint=hint)
    return {VARIABLES: pickle.dumps({name: variables[name] for name in names}, protocol=4)}


def global_names(script: CompiledScript, among: Collection[str]) -> list[str]:
    """The names of `among` that a script reads from its global scope but never binds, in its order."""
    names = script.read_names({*among} - script.bound_names)
    return [name for name in dict.fromkeys(_WORD.findall(script.text)) if name in names] if names else []


def holds_secret(value: Any) -> bool:
    """Whether it contains a string that looks like a key, or a dict key named like a secret."""
    if isinstance(value, str):
        return is_secret_text(value)
    if isinstance(value, Mapping):
        names = (key for key in value if isinstance(key, str))
        return any(map(is_secret_name, names)) or any(map(holds_secret, value.values()))
    return isinstance(value, (list, tuple, set)) and any(map(holds_secret, value))


def _pickled(name: str, value: object) -> bytes:
    try:
        data = pickle.dumps(value, protocol=4)
    except Exception as error:  # noqa: BLE001  objects' own methods may raise anything
        text = f"--use {name}: a {type(value).__name__} cannot be shipped: {error}"
        raise UsageError(text, hint="make it in the cell, from what can be") from None
    if _uses_notebook_definition(data):
        text = f"--use {name}: it is made of a class or function of the notebook, which the job does not have"
        raise UsageError(text, hint="put the definition into the cell, and make the value there")
    return data


def _uses_notebook_definition(data: bytes) -> bool:
    """Whether the pickle refers to a class or function defined in the notebook."""
    recent: list[object] = []
    for code, argument, _ in pickletools.genops(data):
        if code.name == "GLOBAL" and str(argument).startswith("__main__ "):
            return True
        if code.name == "STACK_GLOBAL" and "__main__" in recent[-2:]:
            return True
        if isinstance(argument, str):
            recent.append(argument)
    return False


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB"


MAX_MODULES = 200
MAX_FILES = 200
NAME, MODULE, VARIABLE, FILE = "name", "module", "variable", "file"
_QUOTED = re.compile(r"""["'](\w+)["']""")
_OF_NOTEBOOKS = {
    "display": "display() belongs to notebooks: print() it, or save a figure with plt.savefig()",
    "get_ipython": "get_ipython() belongs to notebooks: leave it out",
}
_SEEN = re.compile(
    r"^\s*(?:NameError: name '(?P<name>\w+)' is not defined"
    r"|ModuleNotFoundError: No module named '(?P<module>\w+)[\w.]*'"
    r"|KeyError: '(?P<variable>\w+)'"
    r"|FileNotFoundError: \[Errno 2\] No such file or directory: '(?:\./)*(?P<file>[^/'][^']*)')"
)


def missing_in(line: str) -> str:
    """The key of the remedy for a line of a traceback; empty if nothing is missing by that line."""
    match = _SEEN.match(line)
    return f"{match.lastgroup} {match[match.lastgroup]}" if match and match.lastgroup else ""


def remedy_for(line: str, remedies: Mapping[str, str]) -> str:
    """The remedy for a line of a traceback, for a file also that of its folder; empty without one."""
    key = missing_in(line)
    while key not in remedies and "/" in key:
        key = key.rpartition("/")[0]
    return remedies.get(key, "")


def names_of_notebook(
    script: CompiledScript, names: Mapping[str, object], used: Sequence[str]
) -> tuple[dict[str, str], list[str]]:
    """The remedies for names that a cell's script reads and never binds, and that are not sent with it.

    Also returns messages, about variables that are sent and not read, too.
    """
    read = global_names(script, {*names, *_OF_NOTEBOOKS})
    needed = [name for name in read if name not in _BUILTINS]
    remedies: dict[str, str] = {}
    for name in needed:
        if name not in used:
            remedies[f"{NAME} {name}"] = _OF_NOTEBOOKS.get(name) or _of_value(name, names[name])
    unread = [f"--use {name}: the cell does not read it" for name in used if name not in needed]
    return remedies, [*unread, *remedies.values()]


def _of_value(name: str, value: object) -> str:
    if isinstance(value, types.ModuleType):
        alias = f" as {name}" if value.__name__ != name else ""
        advice = f"write `import {value.__name__}{alias}` in it"
    elif is_secret_name(name):
        advice = "put it into an environment variable, and name that with --secret"
    elif type(value).__module__ == "__main__":  # --use would refuse it
        advice = f"write its class {type(value).__name__} there, and make it there"
    elif not isinstance(value, (type, types.FunctionType)):
        advice = f"add --use {name}"
    elif (module := getattr(value, "__module__", "")) not in ("__main__", "builtins", ""):
        advice = f"write `from {module} import {name}` in it"
    else:
        advice = f"write its definition there, or use run({name})"
    return f"the notebook has {name}, and the cell does not: {advice}"


def variables_of_submitter(
    scripts: Iterable[str], environ: Mapping[str, str], job_variables: Collection[str]
) -> dict[str, str]:
    """The remedies for environment variables that only the submitter has, of those that scripts may read."""
    quoted = {name for script in scripts for name in _QUOTED.findall(script)}
    remedies: dict[str, str] = {}
    for name in sorted(quoted & environ.keys() - {*job_variables}):
        option = "--secret" if is_secret_name(name) or is_secret_text(environ[name]) else "--env"
        remedies[f"{VARIABLE} {name}"] = f"{name} is set here and not in the job: add {option} {name}"
    return remedies


def local_modules(folder: Path, script: str, sent: Collection[str]) -> dict[str, str]:
    """The remedies for the user's own modules that are not sent, or not where Python looks for them."""
    home = PurePosixPath(script).parent
    remedies: dict[str, str] = {}
    paths = [PurePosixPath(path) for path in sent if path.endswith(".py")]
    for path in sorted(paths, key=lambda path: (len(path.parts), path))[:MAX_MODULES]:
        module = path.parent if path.name == "__init__.py" else path.with_suffix("")
        if module.parent != home and module.name.isidentifier():
            where = shlex.quote(module.parent.as_posix())
            remedy = f"{path} is sent, and Python finds it with --env PYTHONPATH={where}"
            remedies.setdefault(f"{MODULE} {module.name}", remedy)
    try:
        entries = sorted(folder.iterdir())
    except OSError:  # not for this user
        entries = []
    for name in [entry.name for entry in entries if _is_module(entry)][:MAX_MODULES]:
        if not any(path.parts[0] == name for path in paths):
            remedy = f"{name} is yours and was not sent: add --upload {name}"
            remedies.setdefault(f"{MODULE} {name.removesuffix('.py')}", remedy)
    return remedies


def local_files(folder: Path, scripts: Collection[str], sent: Collection[str]) -> dict[str, str]:
    """The remedies for the user's own files and folders that scripts name, of which nothing is sent."""
    known = {path.partition("/")[0] for path in sent}
    try:
        names = sorted(entry.name for entry in folder.iterdir())
    except OSError:  # not for this user
        names = []
    named = [name for name in names if name not in known and any(name in script for script in scripts)]
    return unsent_files([name for name in named if _is_of_use(folder / name)][:MAX_FILES])


def _is_of_use(path: Path) -> bool:
    """Whether it can be uploaded: no cache, nor an empty folder."""
    try:
        return not is_excluded(path.name) and (not path.is_dir() or any(path.iterdir()))
    except OSError:  # not for this user
        return False


def unsent_files(paths: Iterable[str]) -> dict[str, str]:
    """The remedies for the user's own files and folders that are not sent."""
    return {
        f"{FILE} {path}": f"{path} is yours and was not sent: add --upload {shlex.quote(path)}"
        for path in paths
    }


def _is_module(path: Path) -> bool:
    if path.suffix == ".py":
        return path.stem.isidentifier() and path.is_file()
    return path.name.isidentifier() and path.is_dir() and any(path.glob("*.py"))
