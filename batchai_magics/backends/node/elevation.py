"""Runs programs as root: directly if this user is root, else through `sudo -n` where it needs no password."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Sequence
from functools import cache

from batchai_magics.launch.plan import Plan

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
    """The plan with its processes run as root; with a note if they will not be."""
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
