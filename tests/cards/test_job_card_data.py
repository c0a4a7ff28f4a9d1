"""What a job's card shows, gathered from the job's handle."""

import pytest
from IPython.core.interactiveshell import InteractiveShell

import batchai_magics
from tests.world import World, world

pytestmark = pytest.mark.slow

__all__ = ["world"]


@pytest.mark.slow
def test_a_notebook_without_the_magics_shows_a_job_as_a_card(world: World, monkeypatch) -> None:
    shell = InteractiveShell()
    assert batchai_magics.Job, "a name that was asked for before this shell was there"
    monkeypatch.setattr("batchai_magics.magics.extension.get_ipython", lambda: shell)
    job = batchai_magics.Job(world.backend, world.run("j", "print('hello')").id)
    shown, _ = shell.display_formatter.format(job)
    assert "hello" in shown["text/html"]
    assert "<script" not in shown["text/html"]
