"""Processes: identities that survive pid reuse, a job's processes, programs that outlive their parent.

Secrets are passed to programs in memory, never in a file.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from batchai_magics.backends.folders import private_files
from batchai_magics.backends.node.job_environment import submitter_environment
from batchai_magics.backends.node.ranks import leftovers, termination
from batchai_magics.backends.node.ranks.leftovers import LEFTOVER_S, MARK, LiveProcess

if TYPE_CHECKING:
    import psutil

    from batchai_magics.backends.node.ranks.ranks import Ranks

HAS_ORPHANS = sys.platform == "linux"  # whether orphans become children of this process
_HERE = "backends.local"
PACKAGE_ROOT = str(Path(__file__).parents[3])
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


# -- identities


def identity(pid: int) -> str:
    """A unique name for the process: pid, start time, boot id. Empty if it is gone."""
    if sys.platform == "linux":  # by a clock that is never adjusted
        live = leftovers.find(pid)
        started = live.started.decode() if live else ""
    else:
        import psutil

        try:
            process = psutil.Process(pid)
            started = "" if process.status() == psutil.STATUS_ZOMBIE else str(process.create_time())
        except psutil.Error:
            started = ""
    return f"{pid}:{started}:{_boot()}" if started else ""


def identity_of_child(pid: int) -> str:
    """The identity of a child just started, even if it has exited already."""
    return identity(pid) or f"{pid}:ended:{_boot()}"  # matches no live process


def identity_of(process: LiveProcess) -> str:
    """The identity of a process found by `marked` or `descendants`."""
    return f"{process.pid}:{process.started.decode()}:{_boot()}"


def is_alive(name: str) -> bool:
    """Whether the process of that identity still runs (a zombie does not)."""
    pid = name.partition(":")[0]
    return bool(pid) and identity(int(pid)) == name


def pid_of(name: str) -> int:
    """The pid in an identity."""
    return int(name.partition(":")[0])


def marked(mark: str) -> list[LiveProcess]:
    """Every live process with this mark in its environment, wherever it is in the process tree."""
    if sys.platform == "linux":
        return leftovers.marked(mark)
    import psutil

    processes = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                processes.append(_live_process(process))
    return processes


def descendants() -> list[LiveProcess]:
    """Every live descendant of this process, which adopts orphans."""
    if sys.platform == "linux":
        return leftovers.descendants()
    import psutil

    return [_live_process(process) for process in psutil.Process().children(recursive=True)]


def processes_of(ranks: Ranks) -> list[LiveProcess]:
    """The processes of a plan and everything they started, also in containers."""
    return termination.processes_of(ranks) if HAS_ORPHANS else marked(ranks.plan.guid)


class _PsutilProcess(LiveProcess):
    """A running process of a system without /proc."""

    @property
    def is_alive(self) -> bool:
        """Whether it is still running."""
        return is_alive(identity_of(self))


def _live_process(process: psutil.Process) -> LiveProcess:
    return _PsutilProcess(process.pid, str(process.create_time()).encode())


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """Restores the default action of SIGTERM within the block; main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def ask_to_end(name: str) -> None:
    """SIGTERM to the process of that identity, then SIGCONT in case it was stopped."""
    _send_to(name, signal.SIGTERM)
    resume(name)


def resume(name: str) -> None:
    """SIGCONT to the process of that identity; no effect unless it was stopped."""
    _send_to(name, signal.SIGCONT)


def kill_one(name: str) -> None:
    """SIGKILL to the process of that identity; waits briefly for its end."""
    _send_to(name, signal.SIGKILL)
    deadline = time.monotonic() + LEFTOVER_S
    while is_alive(name) and time.monotonic() < deadline:
        time.sleep(0.02)


def _send_to(name: str, number: signal.Signals) -> None:
    if is_alive(name):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid_of(name), number)


def reap() -> None:
    """Reaps children of this process that have exited, adopted ones too."""
    with contextlib.suppress(ChildProcessError):  # there are none
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


@cache
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8]
    except OSError:
        return ""


def own_identity() -> str:
    """The identity of this process."""
    return identity(os.getpid())


# -- programs that outlive their parent


class Secrets(NamedTuple):
    """Values of the secret variables of a job or setup task, and the password of the registry of its image.

    A supervisor reads them as JSON from its standard input.
    """

    variables: Mapping[str, str] = MappingProxyType({})
    registry_password: str = ""

    def __repr__(self) -> str:
        return "Secrets()"

    def __bool__(self) -> bool:
        return bool(self.variables or self.registry_password)


def start_command(
    python: str, module: str, arguments: Sequence[str], *, has_packages: bool = True
) -> list[str]:
    """The command that runs `main` of a module of this folder, or of one with its path in the package.

    Without `has_packages` it can import only the standard library and this package, which saves the time to
    look for others.
    """
    path = module if "." in module else f"{_HERE}.{module}"
    flags = ["-E", "-u"] if has_packages else ["-E", "-u", "-S"]
    return [python, *flags, "-c", START.format(module=path), PACKAGE_ROOT, *arguments]


class DetachedProcess(subprocess.Popen[bytes]):
    """A child meant to outlive this process: no ResourceWarning if it still runs."""

    def __del__(self) -> None:
        """Says nothing, where `Popen` warns of a child that still runs."""


def start(
    module: str,
    arguments: Sequence[str],
    *,
    log: Path,
    python: str = sys.executable,
    secrets: Mapping[str, Any] = MappingProxyType({}),
    has_packages: bool = True,
) -> subprocess.Popen[bytes]:
    """Starts `main` of a module, see `start_command`, as a program in a session of its own.

    It gets the secrets as a line of JSON on its stdin. One that exits before it reads them has done nothing
    and is started once more.
    """
    message = json.dumps(secrets, default=dict).encode() + b"\n"
    for _ in range(STARTS):
        private_files.make_folder(log.parent)
        with open(log, "ab", opener=private_files.opener) as output:
            child = DetachedProcess(
                start_command(python, module, arguments, has_packages=has_packages),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                cwd=log.parent,
                env=clean_environment(python),
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
    return submitter_environment(os.environ, str(Path(python).parent), pass_env)
