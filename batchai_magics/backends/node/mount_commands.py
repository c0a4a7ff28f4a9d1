"""Mount commands of unmanaged file systems: how they are run, and whether they mounted."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from batchai_magics.backends.node import elevation

MAX_MESSAGE_LENGTH = 400  # of a mount command's output
_TABLE = Path("/proc/self/mountinfo")
_ESCAPES = {r"\040": " ", r"\011": "\t", r"\012": "\n", r"\134": "\\"}


def mount_line(command: str, path: Path) -> list[str]:
    """The command that mounts at `path`; like the service, it appends the path to the mount command."""
    return elevation.elevated(["/bin/bash", "-c", f"{command} {shlex.quote(str(path))}"])


def mark(guid: str) -> str:
    """The mark of mount commands and their daemons, distinct from the mark of the job's own processes."""
    return f"{guid}/mounts"


def problem(path: Path, code: int, words: str) -> str:
    """Why a mount command failed; empty if it mounted.

    The command is not quoted, as it may hold a password.
    """
    if code:
        message = " ".join(words.split())[:MAX_MESSAGE_LENGTH]
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
    return [_unescaped(line.split(" ", 5)[4]) for line in lines]


def _unescaped(path: str) -> str:
    for escape, sign in _ESCAPES.items():
        path = path.replace(escape, sign)
    return path
