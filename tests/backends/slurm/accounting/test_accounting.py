"""What accounting answers, as a real slurmdbd 22.05 on MariaDB 10.11 gave it, with `|` as the separator."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from batchai_magics.backends.slurm import parse, queries
from batchai_magics.backends.slurm.client import SlurmClient
from batchai_magics.backends.slurm.node.attempt_ends import EndState
from batchai_magics.backends.slurm.parse import SEPARATOR
from tests.backends.slurm.accounting import real_accounting
from tests.backends.slurm.accounting.real_accounting import AccountedSlurm
from tests.backends.slurm.job_files import first_error, number
from tests.backends.slurm.real_slurm import RealSlurm, running
from tests.contract.place import HOLD, PlaceOptions
from tests.contract.places import place_on
from tests.world import processes_of, until

# A cluster with AccountingStoreFlags=job_comment: a comment is kept when the job has ended.
RECORDED = """\
1|PREEMPTED|0:0|1795381030|1795381098|batchai-time|guid-time
2|COMPLETED|0:0|1795381030|1795381030|batchai-ok|guid-ok
3|FAILED|3:0|1795381030|1795381030|batchai-bad|guid-bad
4|FAILED|0:11|1795381030|1795381031|batchai-sig|guid-sig
6|CANCELLED by 0|0:0|1795381030|1795381034|batchai-held|guid-held
8|NODE_FAIL|0:0|1795381037|1795381121|batchai-lost|guid-lost
11|TIMEOUT|0:0|1795381214|1795381296|batchai-limit|guid-limit
12|REQUEUED|0:0|1795381380|1795381383|batchai-again|guid-again
12|PENDING|0:0|1795381383|Unknown|batchai-again|
13|RUNNING|0:0|1795381037|Unknown|batchai-up|
"""
# Without job_comment there is none. OUT_OF_MEMORY after the manual page of sacct: it takes cgroups.
BARE = """\
4|OUT_OF_MEMORY|0:125|1795381030|1795381031|batchai-mem|
5|COMPLETED|0:0|1795000000|1795000100|batchai-other|
5|CANCELLED by 1000|0:0|1795381030|1795381034|batchai-five|
"""


def past_jobs(text: str) -> list[parse.SlurmJob]:
    return parse.past_jobs(text.replace("|", SEPARATOR))


def end_of(text: str, number: str, name: str, *, guid: str = "", submitted: float = 1795381031.5):
    return queries.ended_job(
        past_jobs(text), number, guid=guid or f"guid-{name}", name=name, submitted=submitted
    )


@pytest.mark.parametrize(
    ("number", "name", "ending", "words"),
    [
        ("1", "time", EndState.PREEMPTED, "PREEMPTED"),
        ("2", "ok", EndState.COMPLETED, "COMPLETED"),
        ("3", "bad", EndState.FAILED, "FAILED with exit code 3"),
        ("4", "sig", EndState.FAILED, "FAILED by signal 11"),
        ("6", "held", EndState.CANCELLED, "CANCELLED by the user with number 0"),
        ("8", "lost", EndState.NODE_FAIL, "NODE_FAIL"),
        ("11", "limit", EndState.TIMEOUT, "TIMEOUT"),
    ],
)
def test_each_end_is_known_with_its_words(number, name, ending, words):
    told = end_of(RECORDED, number, name)
    assert told
    assert (told.end_state, told.description) == (ending, f"Slurm's accounting says {words}")
    assert f"|{told.ended:.0f}|batchai-{name}|" in RECORDED


@pytest.mark.parametrize(
    ("number", "name", "guid"),
    [("12", "again", ""), ("13", "up", ""), ("99", "nobody", ""), ("3", "bad", "guid-other")],
)
def test_what_has_not_ended_is_not_known_or_of_another_comment_has_no_end(number, name, guid):
    assert end_of(RECORDED, number, name, guid=guid) is None


def test_where_comments_are_not_kept_name_and_time_tell_jobs_apart():
    told = end_of(BARE, "5", "five")
    assert told
    assert told.end_state is EndState.CANCELLED
    assert end_of(BARE, "5", "other") is None  # an older job of that number, and of that name
    assert end_of(BARE, "4", "five") is None
    memory = end_of(BARE, "4", "mem")
    assert memory
    assert memory.end_state is EndState.OUT_OF_MEMORY


def test_nothing_and_noise_are_no_jobs():
    assert past_jobs("") == []
    assert past_jobs("sacct: error: Problem talking to the database: Connection refused\n") == []


# jobs that the controller of a real Slurm has forgotten


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


def end_without_a_word(slurm: RealSlurm, folder: Path, dies: str, waits: str) -> None:
    slurm.ask("scancel", waits)
    for process in processes_of(folder / "home"):
        with contextlib.suppress(psutil.Error):
            if "run_job" in " ".join(process.cmdline()):
                process.send_signal(signal.SIGKILL)
    until(lambda: not slurm.ask("squeue", "-h", "-j", f"{dies},{waits}").strip())
    states = ("sacct", "-nXP", "-oState", "-j", f"{dies},{waits}")
    until(lambda: {"FAILED", "CANCELLED"} == {line.split()[0] for line in slurm.ask(*states).splitlines()})


@pytest.mark.slow
def test_accounting_tells_how_forgotten_jobs_ended(tmp_path, commands):
    """One died without a word, one was cancelled; nobody looked until the controller had forgotten them."""
    if reason := real_accounting.skip_reason():
        pytest.skip(reason)
    with (
        running(AccountedSlurm, tmp_path / "slurm", count=2, silence_s=60) as slurm,
        place_on(slurm, tmp_path, PlaceOptions()) as place,
    ):
        ids = dies, waits = place.start(HOLD, "dies"), place.start(HOLD, "waits", nodeCount=2)
        place.is_up(dies)
        end_without_a_word(slurm, tmp_path, number(place, dies), number(place, waits))
        commands.clear()
        slurm.end("slurmctld")  # it begins anew, and knows of nothing
        slurm.start_controller("-c")
        until(lambda: not slurm.ask("squeue", "-h", "--states=all").strip())
        until(lambda: all(job.state.is_final for job in place.backend.status(ids).states.values()))
        died, waited = (place.backend.status(ids).states[id.key] for id in ids)
        assert first_error(died).code == "JobSupervisorLost"
        assert "Slurm's accounting says FAILED by signal 9" in first_error(died).message
        assert first_error(waited).code == "JobTerminated"
        assert f"CANCELLED by the user with number {os.getuid()}" in first_error(waited).message
        assert commands.count("sacct") == 1
