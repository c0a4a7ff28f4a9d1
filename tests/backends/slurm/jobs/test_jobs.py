"""Jobs on a real Slurm: what its nodes run, and what happens when Slurm or somebody takes them away."""

from __future__ import annotations

import contextlib
import errno
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import psutil
import pytest

from batchai_magics.backends.service.run_labels import RunRecords
from batchai_magics.backends.slurm import client
from batchai_magics.backends.slurm.client import SlurmClient
from batchai_magics.backends.slurm.runner import SlurmBackend
from batchai_magics.errors import SpecError, StorageError
from batchai_magics.models.states import ExecutionState
from tests.backends.slurm.conftest import impatient
from tests.backends.slurm.job_files import files, first_error, number
from tests.contract.place import HOLD, MOUNTED, Place, manual
from tests.world import processes_of, until

pytestmark = pytest.mark.slow


# what runs


def test_a_job_whose_submitter_died_behind_sbatch_is_found_again(place):
    place.is_up(place.start(HOLD, "first", nodeCount=2))
    waiting = place.start(name="waiting")
    known = number(place, waiting)
    (files(place, waiting).root / "submission-1.json").unlink()
    until(lambda: place.backend.show(waiting) and files(place, waiting).submission(1))
    assert number(place, waiting) == known
    place.backend.terminate(place.job("first"))
    assert place.wait(waiting).state is ExecutionState.SUCCEEDED


def test_a_job_that_was_submitted_stays_although_it_cannot_be_made_the_baseline(place, monkeypatch):
    def refused(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(RunRecords, "pin", refused)
        with pytest.raises(StorageError):
            place.submit("pinned --tag baseline")
    assert place.wait(place.job("pinned")).state is ExecutionState.SUCCEEDED
    assert place.backend.records.baseline(place.experiment) == ""


def test_when_a_job_starts_behind_one_without_a_time_limit_is_not_known(place, slurm):
    waits = ("sbatch", "--parsable", "-N8", "--exclusive", "--time=UNLIMITED", "-o/dev/null")
    other = slurm.ask(*waits, "--wrap=sleep 1000").strip()
    until(lambda: slurm.ask("squeue", "-h", "-o%T", "-j", other).strip() == "RUNNING")
    id = place.start()
    until(lambda: "has no time limit" in place.backend.show(id).waiting)
    assert "expects" not in place.backend.show(id).waiting
    slurm.ask("scancel", other)
    assert place.wait(id).state is ExecutionState.SUCCEEDED


def test_unknown_partition_error_lists_the_partitions(place):
    backend = SlurmBackend(replace(place.backend.settings, sizes="Standard_D3=--partition=bach"))
    with pytest.raises(SpecError, match=r"Slurm has no partition 'bach'.*batch"):
        replace(place, backend=backend).make_cluster(vmSize="STANDARD_D3")
    assert len(place.backend.list(place.workspace, place.cluster.kind)) == 1


# what takes it away


def test_a_job_that_somebody_cancels_in_slurm_is_cancelled(place, slurm):
    id = place.start_ranks('trap "echo last; exit 0" TERM; echo up; while :; do sleep 0.1; done', count=2)
    until(lambda: place.log(id).count(b"up") == 2)
    slurm.ask("scancel", number(place, id))
    job = place.wait(id)
    assert (job.is_cancelled, "scancel" in first_error(job).message) == (True, True)
    assert place.log(id).count(b"last") == 2


def test_a_job_whose_grace_is_longer_than_slurms_is_told(place, slurm):
    job = place.run_cell(f"j --grace {slurm.kill_wait_s + 1}s")
    assert f"Slurm kills processes {slurm.kill_wait_s} s after" in job.log(file="execution.log")
    assert "--signal-before" in job.log(file="execution.log")
    other = place.run_cell("k --grace 1s")
    assert "Slurm kills" not in other.log(file="execution.log")


@impatient
def test_a_job_that_slurm_takes_is_cancelled_though_its_ranks_hear_of_it_late(own_place, own_slurm, tmp_path):
    """srun is over by then, and the program that runs the job knows nothing yet."""
    place, slurm = own_place, own_slurm
    id = place.start_ranks("echo up; exec sleep 1000", count=2)
    until(lambda: place.log(id) == b"up\nup\n")
    late = [each for each in psutil.process_iter() if f"[{number(place, id)}.0]" in " ".join(words_of(each))]
    assert len(late) == 2
    for process in late:
        process.suspend()
    with subprocess.Popen(["scancel", number(place, id)], env=slurm.env):
        until(lambda: not any("srun" in words_of(each)[:1] for each in processes_of(tmp_path)))
        for process in late:
            process.resume()
    assert place.wait(id).is_cancelled


def words_of(process: psutil.Process) -> list[str]:
    with contextlib.suppress(psutil.Error):
        return process.cmdline()
    return []


def test_a_job_whose_program_was_killed_has_failed(place, tmp_path):
    id = place.start(HOLD)
    place.is_up(id)
    for process in processes_of(tmp_path):
        with contextlib.suppress(psutil.NoSuchProcess):
            if "run_job" in " ".join(process.cmdline()):
                process.send_signal(signal.SIGKILL)
    job = place.wait(id)
    assert (job.state, first_error(job).code) == (ExecutionState.FAILED, "JobSupervisorLost")
    until(lambda: not processes_of(tmp_path))


def test_a_job_that_loses_its_node_has_failed_and_the_node_is_unusable(own_place, own_slurm, tmp_path):
    id = own_place.start(HOLD)
    own_place.is_up(id)
    (node,) = own_place.backend.nodes(id)
    own_slurm.ask("scontrol", "requeue", number(own_place, id))  # which it has not asked for
    own_slurm.kill(node.id)
    job = own_place.wait(id)
    assert (first_error(job).code, job.attempts) == ("JobNodeLost", ())
    until(lambda: own_place.backend.show(own_place.cluster).node_states.unusable_node_count == 1)
    (error,) = own_place.backend.show(own_place.cluster).errors
    assert "Slurm says down" in error.message
    own_slurm.start_node(node.id)  # what still ran there ends when Slurm has it again
    until(lambda: own_place.backend.show(own_place.cluster).node_states.idle_node_count == 2)
    until(lambda: not processes_of(tmp_path / "home"))


def test_a_job_does_not_notice_that_the_controller_was_away(own_place, own_slurm, monkeypatch):
    place = own_place
    id = place.start(f"echo up; until [ -e {MOUNTED}/go ]; do sleep 0.05; done; echo on")
    place.is_up(id)
    own_slurm.end("slurmctld")
    monkeypatch.setattr(client, "TIMEOUT_S", 1.0)  # while nobody answers
    assert place.backend.show(id).state is ExecutionState.RUNNING
    (told,) = until(lambda: place.backend.show(id).execution.errors)
    assert (told.code, told.is_warning) == ("SlurmUnavailable", True)
    (of_cluster,) = until(lambda: place.backend.show(place.cluster).errors)
    assert "Slurm has not answered since 2" in of_cluster.message
    place.backend.storage.upload(place.share, {"go": b""})
    job = place.wait(id)
    assert (job.state, job.execution.errors) == (ExecutionState.SUCCEEDED, ())
    monkeypatch.undo()
    own_slurm.start_controller()
    until(lambda: not place.backend.show(place.cluster).errors)
    until(lambda: place.backend.show(place.cluster).node_states.idle_node_count == 2)
    assert place.run(name="after").state is ExecutionState.SUCCEEDED


# what somebody else does while an attempt is on its way to Slurm


@pytest.fixture
def meanwhile(place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Callable[[Place], object]]]:
    """What another process does while a job is on its way to Slurm."""
    acts: list[Callable[[Place], object]] = []
    submit = SlurmClient.submit
    with place.reopen() as other:

        def submit_late(slurm: SlurmClient, *words: Any, **more: Any) -> str:
            for act in acts:
                act(replace(place, backend=other))
            return submit(slurm, *words, **more)

        monkeypatch.setattr(SlurmClient, "submit", submit_late)
        yield acts


def test_a_job_that_is_cancelled_while_it_is_submitted_is_cancelled(place, meanwhile):
    meanwhile.append(lambda other: other.backend.terminate(place.job()))
    assert place.wait(place.start(HOLD)).is_cancelled


def test_a_job_that_is_submitted_while_its_cluster_grows_is_started(place, meanwhile):
    place.scale(place.cluster, manual(0))
    meanwhile.append(lambda other: other.scale(place.cluster, manual(1)))
    assert place.run().state is ExecutionState.SUCCEEDED


def test_a_job_that_is_cancelled_while_it_is_handed_over_again_is_cancelled(place, slurm, meanwhile):
    id = place.start(HOLD, nodeCount=2)
    place.is_up(id)
    states = []

    def cancel(other: Place) -> None:
        other.backend.terminate(id)
        states.append(other.backend.show(id).state)

    meanwhile.append(cancel)
    place.scale(place.cluster, manual(1))
    assert place.wait(id).is_cancelled
    assert len(states) == 1
    assert states[0] in (ExecutionState.TERMINATING, ExecutionState.FAILED)
    until(slurm.is_idle)
