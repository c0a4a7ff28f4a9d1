"""Starts a program of this package that outlives its parent, and opens the store for it.

Secrets are passed in memory, never in a file.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from batchai_magics.backends.folders import private_files
from batchai_magics.backends.local.state import job_table, node_table
from batchai_magics.backends.local.state.store import Database, Store
from batchai_magics.backends.local.watch import process
from batchai_magics.backends.node.job_environment import inherited


class JobSecrets(NamedTuple):
    """The values of a job's secret variables, and the password of the registry that holds its image.

    A supervisor reads them as JSON from its standard input.
    """

    variables: Mapping[str, str] = MappingProxyType({})
    registry_password: str = ""

    def __repr__(self) -> str:
        return "JobSecrets()"

    def __bool__(self) -> bool:
        return bool(self.variables or self.registry_password)


class Secrets(NamedTuple):
    """Secrets of a resource that is being created."""

    jobs: Mapping[str, JobSecrets] = MappingProxyType({})  # by guid; none without secrets
    setup: Mapping[str, str] = MappingProxyType({})  # of a cluster's setup task

    def __repr__(self) -> str:
        return "Secrets()"


_HERE = "backends.local.watch"
PACKAGE_ROOT = str(Path(__file__).parents[4])
STARTS = 2  # attempts for a program that exits before it reads its secrets
# The package comes after the standard library and before other versions of itself on sys.path, so that
# neither files beside it nor the user's PYTHONPATH (ignored by -E) shadow a standard module.
# Modules stay as long as the program: looking for garbage among them takes an eighth of its start.
START = """
import gc, os, sys
gc.disable()
root, path = sys.argv.pop(1), [folder for folder in sys.path if folder]
sites = [folder for folder in path if folder.endswith(("site-packages", "dist-packages"))]
path.insert(path.index(sites[0]) if sites else len(path), root)
own = os.environ.get("PYTHONPATH", "").split(os.pathsep)
sys.path[:] = path + [folder for folder in own if os.path.isabs(folder)]
from batchai_magics.{module} import main
gc.freeze()
gc.enable()
main()
"""


def start_command(python: str, module: str, arguments: Sequence[str]) -> list[str]:
    """The command that runs `main` of a module of this folder, or of one with its path in the package."""
    path = module if "." in module else f"{_HERE}.{module}"
    return [python, "-E", "-u", "-c", START.format(module=path), PACKAGE_ROOT, *arguments]


class Program(NamedTuple):
    """A module of this folder, or with its path in the package, that has a `main`; its arguments and log."""

    module: str
    arguments: tuple[str, ...]
    python: str
    log: Path


class DetachedProcess(subprocess.Popen[bytes]):
    """A child meant to outlive this process: no ResourceWarning if it still runs."""

    def __del__(self) -> None:
        """Says nothing, where `Popen` warns of a child that still runs."""


def start(program: Program, *, secrets: Mapping[str, Any]) -> subprocess.Popen[bytes]:
    """Starts the program in a session of its own; it gets the secrets as a line of JSON on its stdin.

    One that exits before it reads them has done nothing and is started once more.
    """
    message = json.dumps(secrets, default=dict).encode() + b"\n"
    for _ in range(STARTS):
        private_files.make_folder(program.log.parent)
        with open(program.log, "ab", opener=private_files.opener) as log:
            child = DetachedProcess(
                start_command(program.python, program.module, program.arguments),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=program.log.parent,
                env=clean_environment(program.python),
                start_new_session=True,
            )
        assert child.stdin
        try:
            with child.stdin as pipe:
                pipe.write(message)
            return child
        except BrokenPipeError:  # it has read nothing
            child.wait()
    raise ChildProcessError(f"process {child.pid} ended at once, with exit status {child.returncode}")


def redirect_output(log: Path) -> None:
    """Redirects this process's output to another log."""
    private_files.make_folder(log.parent)
    os.chdir(log.parent)
    with open(log, "ab", opener=private_files.opener) as file:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(file.fileno(), stream.fileno())


def clean_environment(python: str, pass_env: str = "") -> dict[str, str]:
    """The environment of jobs, with `python`'s folder first on PATH, for its `python` and `mpirun`."""
    env = inherited(os.environ, pass_env)
    own, others = str(Path(python).parent), env.get("PATH", os.defpath).split(os.pathsep)
    env["PATH"] = os.pathsep.join([own, *others[others[0] == own :]])  # a supervisor may have added it
    env["PYTHONUNBUFFERED"] = "1"
    return env


class SharedStore(Store):
    """The store of a home whose jobs have supervisors.

    When the write lock is held for long, supervisors of open jobs and node preparers get SIGCONT, since a
    stopped one may hold it. Readers need no lock.
    """

    def unlock(self, db: Database) -> None:
        """Resumes supervisors of open jobs and node preparers."""
        supervisors = [job.supervisor for job in job_table.open_and_watched(db)]
        for name in (*supervisors, *node_table.preparers(db)):
            process.resume(name)
