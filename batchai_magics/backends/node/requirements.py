"""The requirements of a job before its processes start: its image, mounts and directories."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from batchai_magics.backends.node.outcome import failed_with
from batchai_magics.backends.node.ranks.leftovers import MARK, mount_mark
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import Directory, Plan, Requirement

_SUDO = ("sudo", "-n", "-E", "--")
PROBE_S = 10.0


def elevated(argv: Sequence[str]) -> list[str]:
    """The command run as root if this user can; else unchanged."""
    return [*argv] if is_root() or not has_sudo() else [*_SUDO, *argv]


def elevated_command(command: str) -> tuple[str, str]:
    """The same for a shell command, with a warning if it will not run as root."""
    if is_root():
        return command, ""
    if has_sudo():
        return f"exec {shlex.join([*_SUDO, '/bin/bash', '-c', command])}", ""
    return command, f"runElevated: {_user()} has no sudo without a password; the task runs without being root"


def run_elevated(plan: Plan) -> Plan:
    """The plan with its processes run as root if it asks for that; with a note where that is impossible."""
    if not plan.is_elevated:
        return plan
    commands = [elevated_command(process.command) for process in plan.processes]
    processes = (
        process._replace(command=command)
        for process, (command, _) in zip(plan.processes, commands, strict=True)
    )
    warnings = (warning for _, warning in commands if warning)
    return plan._replace(processes=tuple(processes), notes=(*plan.notes, *warnings))


def is_root() -> bool:
    """Whether this process runs as root."""
    return os.geteuid() == 0


@cache
def has_sudo() -> bool:
    """Whether sudo works without a password."""
    try:
        done = subprocess.run(
            [*_SUDO, "true"], stdin=subprocess.DEVNULL, capture_output=True, timeout=PROBE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return not done.returncode


def _user() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name
        return f"user {os.geteuid()}"


MAX_MESSAGE_LENGTH = 400  # of a mount command's output
_TABLE = Path("/proc/self/mountinfo")
_ESCAPES = {r"\040": " ", r"\011": "\t", r"\012": "\n", r"\134": "\\"}


def mount_line(command: str, path: Path) -> list[str]:
    """The command that mounts at `path`; like the service, it appends the path to the mount command."""
    return elevated(["/bin/bash", "-c", f"{command} {shlex.quote(str(path))}"])


def mount_problem(path: Path, code: int, output: str) -> str:
    """Why a mount command failed; empty if it succeeded.

    The text does not quote the command, which may contain a password.
    """
    if code:
        message = " ".join(output.split())[:MAX_MESSAGE_LENGTH]
        reason = f"{message} (exit code {code})" if message else f"exit code {code}"
        return f"{path.name} could not be mounted: {reason}"
    if not is_mounted(path):
        return f"The mount command of {path.name} ended well, and nothing is mounted at {path}"
    return ""


def is_mounted(path: Path) -> bool:
    """Whether exactly this path is a mount point; on Linux, bind mounts count too."""
    return str(path.resolve()) in mount_points() if sys.platform == "linux" else path.is_mount()


def mount_points() -> list[str]:
    """The mount points of this machine, from Linux's mount table; empty on other systems."""
    try:
        lines = _TABLE.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return []
    points = [line.split(" ", 5)[4] for line in lines]
    for escape, sign in _ESCAPES.items():
        points = [point.replace(escape, sign) for point in points]
    return points


PREPARATION_FAILED = "JobPreparationFailed"
CONTAINER_FAILED = "FailedStartingContainer"  # the service's code for an image that could not be pulled


class Tool(NamedTuple):
    """A program to run; `problem` explains a failure from the exit code and output, or returns ""."""

    argv: Sequence[str]
    env: Mapping[str, str]
    code: str
    problem: Callable[[int, str], str]
    details: Mapping[str, str] = MappingProxyType({})

    def __repr__(self) -> str:
        return f"Tool({self.argv!r})"  # the environment may contain secrets

    def outcome(self, exit_code: int, output: str) -> Outcome | None:
        """The job's outcome if the program failed."""
        problem = self.problem(exit_code, output)
        return failed_with(self.code, problem, **self.details) if problem else None


def tools(plan: Plan, *, sign_in: Path, mounts: Path, password: str) -> Generator[Tool]:
    """The programs that the job needs; run each to its end before taking the next.

    Close the generator if not all of them are run. `sign_in` is a folder for registry credentials, `mounts`
    the job's mount root.
    """
    image, engine, _ = plan.containers
    if image and image.username and engine:
        from batchai_magics.backends.node import containers  # few jobs need it

        name = containers.image_name(image.server, image.name)
        name = (containers.is_podman(engine) and containers.hub_name(name)) or name
        with containers.registry_login(sign_in, name, username=image.username, password=password) as env:
            argv = [*engine, "pull", name]
            yield Tool(argv, env, CONTAINER_FAILED, partial(_pull_problem, name), {"imageName": name})
    for mount in plan.mounts:
        path = mounts / mount.path
        if is_mounted(path):  # by an earlier run of this job that was interrupted
            continue
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        env = {"AZ_BATCHAI_JOB_MOUNT_ROOT": str(mounts), MARK: mount_mark(plan.guid)}
        line = mount_line(mount.command, path)
        yield Tool(line, env, PREPARATION_FAILED, partial(mount_problem, path))


def _pull_problem(image: str, code: int, output: str) -> str:
    last_line = output.strip().rpartition("\n")[2]
    return f"The image {image} could not be pulled: {last_line or f'exit code {code}'}" if code else ""


def directories(plan: Plan) -> Outcome | None:
    """Creates the job's directories; returns the job's outcome if one is missing or cannot be created."""
    for node in plan.nodes:
        for directory in node.directories:
            problem = _directory_problem(Path(node.folder, directory.path), directory)
            if problem:
                return failed_with(PREPARATION_FAILED, problem)
    return None


def _directory_problem(path: Path, directory: Directory) -> str:
    named = f"The directory {path} (${directory.variable})"
    if directory.need is Requirement.EXIST:
        return "" if path.is_dir() else f"{named} is not there, and createNew is false"
    if directory.need is Requirement.CREATE:
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            return f"{named} cannot be made: {error.strerror}"
    return ""
