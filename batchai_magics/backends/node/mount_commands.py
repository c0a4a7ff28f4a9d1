"""Mount commands of unmanaged file systems: how they are run, and whether they mounted."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from batchai_magics.backends.node import elevation

LONGEST_WORDS = 400  # of what a mount command says
_TABLE = Path("/proc/self/mountinfo")
_ESCAPES = {r"\040": " ", r"\011": "\t", r"\012": "\n", r"\134": "\\"}


def mount_line(command: str, path: Path) -> list[str]:
    """The program that mounts at `path`: the service added the path to the command by itself, too."""
    return elevation.elevated(["/bin/bash", "-c", f"{command} {shlex.quote(str(path))}"])


def mark(guid: str) -> str:
    """What marks mount commands and the daemons that they leave, apart from the job's own processes."""
    return f"{guid}/mounts"


def problem(path: Path, code: int, words: str) -> str:
    """Why a mount command did not mount, or an empty string when it did. The command may hold a password."""
    if code:
        said = " ".join(words.split())[:LONGEST_WORDS]
        reason = f"{said} (exit code {code})" if said else f"exit code {code}"
        return f"{path.name} could not be mounted: {reason}"
    if not is_mounted(path):
        return f"The mount command of {path.name} ended well, and nothing is mounted at {path}"
    return ""


def is_mounted(path: Path) -> bool:
    """Whether something is mounted exactly there; on Linux a bind mount counts too."""
    return str(path.resolve()) in mount_points() if sys.platform == "linux" else path.is_mount()


def mount_points() -> list[str]:
    """Where something is mounted on this machine, by Linux's own table; empty where there is none."""
    try:
        lines = _TABLE.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return []
    return [_unescaped(line.split(" ", 5)[4]) for line in lines]


def _unescaped(path: str) -> str:
    for escape, sign in _ESCAPES.items():
        path = path.replace(escape, sign)
    return path
