"""Ctrl-C at the `batchai` program, at many moments: it always ends with one clear line and exit code 130."""

import os
import subprocess
import sys

import pytest

from tests.patience import PATIENCE_S

# Stands on the path as `sitecustomize`: Python runs it before anything else. It writes down what the program
# imports, and interrupts the process when it is about to import one module.
SITE = """
import os, signal, sys


class Watch:
    begun = False

    def find_spec(self, name, path=None, target=None):
        Watch.begun = Watch.begun or name == "batchai_magics.cli"
        is_over = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # all is said, the interpreter tidies up
        if not Watch.begun or is_over or name == "batchai_magics.cli":
            return None
        with open(os.environ["IMPORTED"], "a") as file:
            print(name, file=file)
        if name == os.environ.get("INTERRUPTED_AT"):
            os.kill(os.getpid(), signal.SIGINT)
        return None


sys.meta_path.insert(0, Watch())
"""
MOMENTS = 5


@pytest.fixture
def program(tmp_path):
    """Runs `batchai` with a few words, interrupted when it imports a module; gives the process that ended."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site/sitecustomize.py").write_text(SITE)
    imported = tmp_path / "imported"

    def run(*words, interrupted_at=""):
        env = {
            **os.environ,
            "PYTHONPATH": str(tmp_path / "site"),
            "IMPORTED": str(imported),
            "INTERRUPTED_AT": interrupted_at,
        }
        argv = [sys.executable, "-m", "batchai_magics.cli", *words]
        return subprocess.run(argv, capture_output=True, text=True, env=env, timeout=PATIENCE_S, check=False)

    run.imported = imported
    return run


@pytest.mark.slow
@pytest.mark.parametrize("words", [("experiment", "wait"), ("use",)])
def test_an_interrupt_during_any_import_ends_in_one_line(program, words):
    for _ in range(2):  # the second finds all that the first has made
        program.imported.write_text("")
        assert program(*words).returncode == 0
    names = program.imported.read_text().split()
    assert "batchai_magics.errors" in names
    for name in [*names[:2], *names[2 :: len(names) // MOMENTS]]:
        ended = program(*words, interrupted_at=name)
        assert (ended.returncode, ended.stdout) == (130, ""), (name, ended)
        (line,) = ended.stderr.strip().splitlines()
        assert line.removeprefix("ERROR: ").startswith(("Stopped", "Interrupted")), (name, line)


@pytest.mark.slow
def test_an_interrupt_before_the_command_begins_says_that_nothing_was_done(program):
    ended = program("job", "list", interrupted_at="batchai_magics.commands")
    assert (ended.returncode, ended.stderr) == (130, "\nInterrupted before anything was done.\n")
