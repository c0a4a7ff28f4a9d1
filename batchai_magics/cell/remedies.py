"""What a script may lack once it runs elsewhere, and what to write so that it has it. Pure.

A remedy is recorded with the run under the text that Python's error has: `name x`, `module helper`.
"""

from __future__ import annotations

import re
import shlex
import types
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path, PurePosixPath

from batchai_magics.cell.notebook_variables import free_names
from batchai_magics.models.secret_masking import is_secret_name, is_secret_text

MAX_MODULES = 200
NAME, MODULE, VARIABLE = "name", "module", "variable"
_QUOTED = re.compile(r"""["'](\w+)["']""")
_OF_NOTEBOOKS = {
    "display": "display() belongs to notebooks: print() it, or save a figure with plt.savefig()",
    "get_ipython": "get_ipython() belongs to notebooks: leave it out",
}
_SEEN = re.compile(
    r"^\s*(?:NameError: name '(?P<name>\w+)' is not defined"
    r"|ModuleNotFoundError: No module named '(?P<module>\w+)[\w.]*'"
    r"|KeyError: '(?P<variable>\w+)')"
)


def missing_in(line: str) -> str:
    """The key of what a line of a traceback says is missing; empty for any other line."""
    found = _SEEN.match(line)
    return f"{found.lastgroup} {found[found.lastgroup]}" if found and found.lastgroup else ""


def names_of_notebook(script: str, names: Mapping[str, object], used: Collection[str]) -> dict[str, str]:
    """The remedies for names that a cell's script reads and never binds, and that are not sent with it."""
    missing = [name for name in free_names(script) if name not in used]
    own = {name: text for name, text in _OF_NOTEBOOKS.items() if name in missing}
    found = {name: _of_value(name, names[name]) for name in missing if name in names}
    return {f"{NAME} {name}": text for name, text in {**found, **own}.items()}


def _of_value(name: str, value: object) -> str:
    if isinstance(value, types.ModuleType):
        alias = f" as {name}" if value.__name__ != name else ""
        return f"the notebook has {name}, and the cell does not: write `import {value.__name__}{alias}` in it"
    if isinstance(value, (type, types.FunctionType)):
        module = getattr(value, "__module__", "")
        if module not in ("__main__", "builtins", ""):
            return (
                f"the notebook has {name}, and the cell does not: write `from {module} import {name}` in it"
            )
        return (
            f"the notebook has {name}, and the cell does not: write its definition there, or use run({name})"
        )
    return f"the notebook has {name}, and the cell does not: add --use {name}"


def variables_of_submitter(
    scripts: Iterable[str], environ: Mapping[str, str], given: Collection[str]
) -> dict[str, str]:
    """The remedies for environment variables that only the submitter has, of those that scripts may read.

    Args:
        scripts: The texts of the scripts.
        environ: The submitter's environment.
        given: The names of the variables that the job has.
    """
    quoted = {name for script in scripts for name in _QUOTED.findall(script)}
    return {
        f"{VARIABLE} {name}": f"{name} is set here and not in the job: add {_option(name, environ)}"
        for name in sorted(quoted & environ.keys() - {*given})
    }


def _option(name: str, environ: Mapping[str, str]) -> str:
    is_secret = is_secret_name(name) or is_secret_text(environ[name])
    return f"--secret {name}" if is_secret else f"--env {name}"


def local_modules(folder: Path, script: str, sent: Collection[str]) -> dict[str, str]:
    """The remedies for the user's own modules that are not sent, or not where Python looks for them.

    Args:
        folder: The folder of the notebook or project.
        script: The path of the script.
        sent: The paths of all files that are sent.
    """
    home = PurePosixPath(script).parent
    found: dict[str, str] = {}
    paths = [PurePosixPath(path) for path in sent if path.endswith(".py")]
    for path in sorted(paths, key=lambda path: (len(path.parts), path))[:MAX_MODULES]:
        module = path.parent if path.name == "__init__.py" else path.with_suffix("")
        if module.parent != home and module.name.isidentifier():
            where = shlex.quote(module.parent.as_posix())
            told = f"{path} is sent, and Python finds it with --env PYTHONPATH={where}"
            found.setdefault(f"{MODULE} {module.name}", told)
    for name in _modules_in(folder):
        if not any(path.parts[0] == name for path in paths):
            told = f"{name} is yours and was not sent: add --upload {name}"
            found.setdefault(f"{MODULE} {name.removesuffix('.py')}", told)
    return found


def _modules_in(folder: Path) -> list[str]:
    """The names of the modules and packages of a folder, at most `MAX_MODULES`."""
    try:
        entries = sorted(folder.iterdir())
    except OSError:  # not for this user
        return []
    found = [entry.name for entry in entries if _is_module(entry)]
    return found[:MAX_MODULES]


def _is_module(path: Path) -> bool:
    if path.suffix == ".py":
        return path.stem.isidentifier() and path.is_file()
    return path.name.isidentifier() and path.is_dir() and any(path.glob("*.py"))
