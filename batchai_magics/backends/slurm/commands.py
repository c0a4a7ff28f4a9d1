"""Commands on nodes: what they write, as it comes. They end with who reads it."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from batchai_magics.backends.base import CommandEnd, CommandOutput
from batchai_magics.backends.folders.command_output import output_of

ENDING_S = 10.0  # what a command gets to end when nobody reads it any more
CODE_S = 10.0  # what a shared folder gets to show a file that a node has written
_AGAIN_S = 0.02
LOST = 1  # the exit code of a command whose end nobody has seen


def run(
    words: Sequence[str], *, env: Mapping[str, str], folder: Path, code_file: Path, tick_s: float = 0.0
) -> CommandOutput:
    """Runs a line of srun's in a folder; gives what comes, and at last the exit code.

    When the generator is closed, or interrupted, the command ends with all that it has started. With `tick_s`
    no bytes at all are given whenever nothing came for so long.
    """
    child = subprocess.Popen(
        words,
        cwd=folder,
        env=env,
        stdin=subprocess.PIPE,  # as long as it is open, somebody wants the command
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # an interrupt at the keyboard is for us; we end the command
    )
    with child:
        try:
            yield from output_of(child.stdout, child.stderr, tick_s)
            code = child.wait() or _code_in(code_file)
        finally:
            _end(child)
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


def _end(child: subprocess.Popen[bytes]) -> None:
    """Ends what still runs: the node hears that nobody reads any more."""
    if child.poll() is not None:
        return
    assert child.stdin
    child.stdin.close()
    try:
        child.wait(ENDING_S)
    except subprocess.TimeoutExpired:
        child.kill()
