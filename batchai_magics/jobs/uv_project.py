"""The environment of a project of uv: what `uv run --no-sync` would use."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from batchai_magics.errors import UsageError
from batchai_magics.untrusted_files import read_file

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_PROJECT = "pyproject.toml"


def project_python(folder: Path, env: Mapping[str, str] = os.environ) -> str:
    """The Python of the project that a folder is in, or else of the environment that is active there.

    Raises:
        UsageError: There is no such environment.
    """
    root = _workspace_of(folder)
    if root:
        environment = root / env.get("UV_PROJECT_ENVIRONMENT", ".venv")
    elif active := env.get("VIRTUAL_ENV"):
        environment = Path(active)
    else:
        environment = next(
            (each / ".venv" for each in _upwards(folder) if (each / ".venv").is_dir()), folder / ".venv"
        )
    python = environment / "bin" / "python"
    if not python.exists():
        raise UsageError(f"uv run: there is no environment {environment}", hint="Make it first: uv sync")
    return str(python)


def not_on_nodes(folder: Path, where: str) -> UsageError:
    """The error for a project whose environment the nodes do not have, with the packages to name instead."""
    packages = _table(_workspace_of(folder)).get("project", {}).get("dependencies", [])
    options = (
        shlex.join(word for package in packages for word in ("--with", str(package))) or "--with PACKAGE"
    )
    text = f"uv run: the environment of the project is on this machine, not {where}"
    return UsageError(text, hint=f"Leave uv run out, and name the packages: batchai run {options} …")


def _workspace_of(folder: Path) -> Path | None:
    """The folder of the project, or of the workspace that it is a member of."""
    roots = [parent for parent in _upwards(folder) if (parent / _PROJECT).is_file()]
    workspaces = (parent for parent in roots if "workspace" in _table(parent).get("tool", {}).get("uv", {}))
    return next(workspaces, roots[0] if roots else None)


def _upwards(folder: Path) -> Iterator[Path]:
    absolute = folder.absolute()
    yield from (absolute, *absolute.parents)


def _table(root: Path | None) -> Mapping[str, Any]:
    """The project's file; empty without one."""
    try:
        return tomllib.loads(read_file(root / _PROJECT).decode()) if root else {}
    except (OSError, ValueError) as error:
        raise UsageError(f"uv run: {_PROJECT}: {error}") from None
