"""Commands on nodes: what they write, as it comes. They end with who reads it."""

from __future__ import annotations

import time
from pathlib import Path

from batchai_magics.backends.base import CommandEnd, CommandOutput
from batchai_magics.backends.machines.machine import Line, Machine

CODE_S = 10.0  # what a shared folder gets to show a file that a node has written
_AGAIN_S = 0.02
LOST = 1  # the exit code of a command whose end nobody has seen


def run(machine: Machine, line: Line, *, code_file: Path, tick_s: float = 0.0) -> CommandOutput:
    """Runs a line of srun's; gives what comes, and at last the exit code.

    When the generator is closed, or interrupted, the command ends with all that it has started. With `tick_s`
    no bytes at all are given whenever nothing came for so long.
    """
    try:
        code = yield from machine.started(line, tick_s=tick_s)
        code = code or _code_in(code_file)
    finally:
        code_file.unlink(missing_ok=True)
    yield CommandEnd(code if code >= 0 else 128 - code)


def _code_in(file: Path) -> int:
    """The exit code that the node has left; it may take a moment to be seen here."""
    deadline = time.monotonic() + CODE_S
    while time.monotonic() < deadline:
        try:
            return int(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            time.sleep(_AGAIN_S)
    return LOST
