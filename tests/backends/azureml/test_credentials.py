"""Who can be asked to sign in."""

import io
import subprocess
import sys

import pytest

from batchai_magics.user_ports import PROMPT

pytestmark = pytest.mark.usefixtures("registered_prompt")


@pytest.fixture
def registered_prompt(monkeypatch):
    """Restores the prompt of this process at the end."""
    monkeypatch.setattr(PROMPT, "_make", PROMPT._make)


@pytest.mark.parametrize(("is_terminal", "is_asked"), [(True, True), (False, False)])
def test_a_process_asks_at_a_terminal_only(monkeypatch, is_terminal, is_asked):
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    monkeypatch.setattr(sys.stdin, "isatty", lambda: is_terminal)
    assert (PROMPT.get() is not None) is is_asked


def test_process_without_stdin_does_not_prompt(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    assert PROMPT.get() is None


@pytest.mark.slow
@pytest.mark.parametrize("line", ["load_ipython_extension(shell)", "Job"])
def test_a_notebook_asks_beneath_its_cell(line):
    program = f"""
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.kernel = object()
import batchai_magics
batchai_magics.{line}
from batchai_magics.user_ports import PROMPT
PROMPT.get()("Who are you?")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
    )
    assert done.stdout == "Who are you?\n"
