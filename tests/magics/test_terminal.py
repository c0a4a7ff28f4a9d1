"""Cells typed in a terminal, line by line, in IPython and in Jupyter's console."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

from tests.patience import PATIENCE_S
from tests.world import processes_of, until

pytestmark = pytest.mark.slow

SHELLS = {
    "ipython": ["-m", "IPython", "--no-banner", "--no-confirm-exit"],
    "jupyter-console": [
        *("-m", "jupyter_console", "--kernel=python3"),
        # After it, the console would take each first line for the start of a cell.
        f"--ZMQTerminalInteractiveShell.kernel_is_complete_timeout={PATIENCE_S}",
    ],
}
COLOUR = r"\x1b\[[0-9;]*m"


@pytest.fixture(params=SHELLS)
def terminal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[pexpect.spawn[str]]:
    """A shell in a terminal, with the extension loaded."""
    folders = {name: str(tmp_path / name) for name in ("BATCHAI_HOME", "IPYTHONDIR", "JUPYTER_RUNTIME_DIR")}
    env = {**os.environ, **folders, "BATCHAI_UI": "text", "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"}
    shell = pexpect.spawn(
        sys.executable,
        SHELLS[request.param],
        cwd=tmp_path,
        env=env,
        encoding="utf-8",
        timeout=PATIENCE_S,
        dimensions=(40, 120),
    )
    enter(shell, 1, "%load_ext batchai_magics")
    yield shell
    enter(shell, 3, "exit()")
    shell.expect(pexpect.EOF)
    until(lambda: not processes_of(tmp_path / "BATCHAI_HOME"))


def enter(shell: pexpect.spawn[str], number: int, line: str) -> None:
    shell.expect(rf"In \[({COLOUR})*{number}")
    shell.send(f"{line}\r")


def test_a_cell_is_submitted_with_its_body_not_with_its_first_line(terminal: pexpect.spawn[str]) -> None:
    enter(terminal, 2, "%%batchai_job t --wait")
    index = terminal.expect([r"\.\.\.:", "Error"])
    assert index == 0, terminal.before
    terminal.send(  # IPython runs a cell magic at its second empty line
        "print('hello', 6 * 7)\r\r\r"
    )
    terminal.expect("hello 42")
