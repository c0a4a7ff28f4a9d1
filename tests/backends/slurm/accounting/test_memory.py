"""Jobs that the controller has forgotten: accounting is asked for all of them once."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from batchai_magics.backends.slurm.client import SlurmClient
from batchai_magics.models.resources import JobResource
from tests.backends.slurm.accounting import real_accounting
from tests.backends.slurm.accounting.real_accounting import AccountedSlurm
from tests.backends.slurm.job_files import first_error, number
from tests.backends.slurm.real_slurm import RealSlurm, running
from tests.contract.place import HOLD, Place, PlaceOptions
from tests.contract.places import place_on
from tests.world import processes_of, until

pytestmark = pytest.mark.slow


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commands of Slurm that are run, by their names."""
    names: list[str] = []
    run = SlurmClient._run

    def counted(slurm: SlurmClient, words: Sequence[str], **more: object) -> object:
        names.append(words[0])
        return run(slurm, words, **more)

    monkeypatch.setattr(SlurmClient, "_run", counted)
    return names


@contextlib.contextmanager
def forgotten(folder: Path, commands: list[str]) -> Iterator[Sequence[JobResource]]:
    """Two jobs, one that died without a word, and one that was cancelled while it waited.

    Nobody looked until the controller had forgotten them.
    """
    with (
        running(AccountedSlurm, folder / "slurm", count=2, silence_s=60) as slurm,
        place_on(slurm, folder, PlaceOptions()) as place,
    ):
        dies, waits = place.start(HOLD, "dies"), place.start(HOLD, "waits", nodeCount=2)
        place.is_up(dies)
        numbers = [number(place, id) for id in (dies, waits)]
        end_without_a_word(slurm, folder, *numbers)
        commands.clear()
        forget(slurm)
        yield until(lambda: both_ended(place, dies, waits))


def end_without_a_word(slurm: RealSlurm, folder: Path, dies: str, waits: str) -> None:
    slurm.ask("scancel", waits)
    for process in processes_of(folder / "home"):
        with contextlib.suppress(psutil.Error):
            if "run_job" in " ".join(process.cmdline()):
                process.send_signal(signal.SIGKILL)
    until(lambda: not slurm.ask("squeue", "-h", "-j", f"{dies},{waits}").strip())
    states = ("sacct", "-nXP", "-oState", "-j", f"{dies},{waits}")
    until(lambda: {"FAILED", "CANCELLED"} == {line.split()[0] for line in slurm.ask(*states).splitlines()})


def forget(slurm: RealSlurm) -> None:
    """The controller begins anew, and knows of nothing."""
    slurm.end("slurmctld")
    slurm.start_controller("-c")
    until(lambda: not slurm.ask("squeue", "-h", "--states=all").strip())


def both_ended(place: Place, *ids: object) -> Sequence[JobResource]:
    shown = place.backend.status(ids).states
    jobs = [shown[id.key] for id in ids]
    return jobs if all(job.state.is_final for job in jobs) else []


def test_accounting_tells_how_forgotten_jobs_ended(tmp_path: Path, commands: list[str]) -> None:
    if reason := real_accounting.skip_reason():
        pytest.skip(reason)
    with forgotten(tmp_path, commands) as (died, waited):
        assert first_error(died).code == "JobSupervisorLost"
        assert "Slurm's accounting says FAILED by signal 9" in first_error(died).message
        assert first_error(waited).code == "JobTerminated"
        assert f"CANCELLED by the user with number {os.getuid()}" in first_error(waited).message
        assert commands.count("sacct") == 1
