"""A shell with the extension, and cells that succeed or fail in it."""

import pytest
from IPython.core.interactiveshell import InteractiveShell

from tests.world import processes_of, until


@pytest.fixture
def shell(monkeypatch, tmp_path):
    """A shell with the extension, on a backend of its own."""
    monkeypatch.setenv("BATCHAI_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("BATCHAI_UI", "text")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.chdir(tmp_path)
    shell = InteractiveShell()
    shell.history_manager.enabled = False
    shell.extension_manager.load_extension("batchai_magics")
    yield shell
    backend = shell.magics_manager.registry["BatchAIMagics"].context.backend
    until(lambda: not processes_of(tmp_path / "home"))
    shell.run_line_magic("batchai", "workspace list")  # reaps the supervisors
    backend.close()
    shell.history_manager.end_session()


@pytest.fixture
def run(shell):
    """Runs a cell and gives its value."""

    def run(text):
        outcome = shell.run_cell(text)
        assert outcome.success, outcome.error_in_exec
        return outcome.result

    return run


@pytest.fixture
def fail(shell, capsys):
    """Runs a cell that has to fail and gives what the user sees."""

    def fail(text):
        capsys.readouterr()
        assert not shell.run_cell(text).success
        told = capsys.readouterr()
        return told.out + told.err

    return fail
