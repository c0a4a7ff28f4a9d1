"""Jobs that nobody watches over: what each is said to have died of, and who is left alone."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest

from batchai_magics.backends.folders.run_end import write_end
from batchai_magics.backends.local import process, reconciler
from batchai_magics.backends.local.state.run_status import run_statuses
from batchai_magics.backends.node.outcome import failed_with
from batchai_magics.backends.node.ranks import termination
from batchai_magics.backends.service.runner import RunStatus
from batchai_magics.launch.outcome import Outcome
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.states import ExecutionState
from tests.backends.local.still import Still, dead

pytestmark = pytest.mark.slow


def lost(still: Still, **columns: object) -> ResourceId:
    """A running job whose supervisor is dead, unless told otherwise."""
    still.cluster()
    still.prepare()
    job = still.job()
    still.schedule()
    for name, value in {"supervisor": dead(), "state": "running", **columns}.items():
        still.change(f"UPDATE job SET {name} = ?", value)
    return job


def codes(still: Still, job: ResourceId) -> list[str]:
    return [error["code"] for error in json.loads(still.state(job)["errors"])]


def say(still: Still, job: ResourceId, words: str | bytes) -> None:
    """The last words of the job's supervisor."""
    log = still.layout.job(still.state(job)["guid"]).supervisor_log
    log.write_bytes(words.encode() if isinstance(words, str) else words)


def other_than_this(change: str) -> str:
    """What the store says after a restart, when this process has the pid of the supervisor."""
    pid, ticks, boot = process.own_identity().split(":")
    named = {"start": f"{pid}:{int(ticks) + 1}:{boot}", "boot": f"{pid}:{ticks}:0ther"}
    return named.get(change) or dead()


@pytest.mark.parametrize("change", ["", "start", "boot"])
def test_a_running_job_without_its_supervisor_has_failed(still: Still, change: str) -> None:
    job = lost(still, supervisor=other_than_this(change))
    assert reconciler.recover_jobs(still.store, still.layout)
    (error,) = json.loads(still.state(job)["errors"])
    assert (still.state(job)["state"], error["code"]) == ("failed", "JobSupervisorLost")
    assert error["message"] == ("The job's supervisor disappeared (killed, or the machine was restarted)")
    assert not still.assigned()
    assert not reconciler.recover_jobs(still.store, still.layout)


def status(still: Still, job: ResourceId) -> RunStatus:
    """The status of the job's run, as any client reads it."""
    guids = [still.state(job)["guid"]]
    with still.store.read() as db:
        (shown,), _ = run_statuses(db, still.layout, guids)
    return shown


@pytest.mark.parametrize("end", [Outcome(0), failed_with("JobFailed", "exit code 1")])
def test_a_job_with_a_warning_has_one_end_before_and_after_it_is_recorded(still: Still, end: Outcome) -> None:
    job = lost(still)
    warned = end.warned("FilesLeftBehind", "some files")._replace(ended=time.time())
    write_end(still.layout.job(still.state(job)["guid"]).end, warned)
    before = status(still, job)
    assert reconciler.recover_jobs(still.store, still.layout)
    after = status(still, job)
    expected = ExecutionState.FAILED if end.errors else ExecutionState.SUCCEEDED
    assert before.state is after.state is expected
    assert before.result
    assert after.result
    assert before.result.errors == after.result.errors


@pytest.mark.parametrize("damaged", ["[" * 200_000, "{}"])
def test_status_is_readable_if_the_description_is_damaged(still: Still, damaged: str) -> None:
    job = lost(still)
    still.layout.job(still.state(job)["guid"]).submitted.write_text(damaged)
    ended = status(still, job).result
    assert ended
    assert [error["code"] for error in ended.errors] == ["JobSupervisorLost"]


@pytest.mark.parametrize("column", ["supervisor", "spawner"])
def test_a_job_that_is_watched_over_is_left_alone(still: Still, column: str) -> None:
    job = lost(still, **{"supervisor": "", "spawner": dead(), column: process.own_identity()})
    assert not reconciler.recover_jobs(still.store, still.layout)
    assert still.state(job)["state"] == "running"


def test_nodes_assigned_by_a_dead_process_are_reassigned(still: Still) -> None:
    job = lost(still, supervisor="", spawner=dead(), state="queued")
    assert reconciler.recover_jobs(still.store, still.layout)
    assert (still.state(job)["state"], still.assigned()) == ("queued", [])
    still.schedule()
    assert still.assigned() == [job.name]


@pytest.mark.parametrize(
    ("columns", "state", "code"),
    [
        ({"stop": "terminate"}, "failed", ["JobTerminated"]),
        ({"stop": "requeue"}, "queued", []),
        (
            {"spawner": process.own_identity()},
            "failed",
            ["JobSupervisorLost"],
        ),  # who lives, but is no supervisor
    ],
)
def test_recovered_job_counts_as_stopped_if_that_was_requested_and_else_as_lost(
    still: Still, columns: dict[str, str], state: str, code: list[str]
) -> None:
    job = lost(still, **columns)
    reconciler.recover_jobs(still.store, still.layout)
    assert (still.state(job)["state"], codes(still, job)) == (state, code)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("first\nno café".encode() + b" \xff\n", ": no café \ufffd"),  # as far as it is text
        (b"", "exited without a message before the job started"),
    ],
)
def test_error_says_why_a_supervisor_could_not_start_its_job(still: Still, words: bytes, said: str) -> None:
    job = lost(still, state="queued")
    say(still, job, words)
    reconciler.recover_jobs(still.store, still.layout)
    (error,) = json.loads(still.state(job)["errors"])
    assert (error["code"], said in error["message"]) == ("JobLaunchFailed", True)


DEAF = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("deaf", flush=True)
time.sleep(1000)
"""


@pytest.mark.parametrize("age_s", [0.0, 1000.0])
def test_a_supervisor_that_does_not_end_its_job_is_killed_when_it_is_due(still: Still, age_s: float) -> None:
    deaf = subprocess.Popen([sys.executable, "-c", DEAF], stdout=subprocess.PIPE)
    deaf.stdout.readline()
    changed = time.time() - age_s
    name = process.identity(deaf.pid)
    job = lost(still, supervisor=name, state="terminating", stop="terminate", changed=changed)
    process.ask_to_end(name)
    assert reconciler.recover_jobs(still.store, still.layout) is (age_s > 0)
    assert codes(still, job) == (["JobTerminated"] if age_s else [])
    assert (deaf.poll() is None) is (age_s == 0)
    deaf.kill()
    deaf.communicate()


@pytest.mark.parametrize(("words", "code"), [("", "JobSecretsLost"), ("oh\n", "JobLaunchFailed")])
def test_secrets_that_died_with_a_silent_supervisor_are_lost(still: Still, words: str, code: str) -> None:
    job = lost(still, state="queued", needs_secrets=1)
    say(still, job, words)
    reconciler.recover_jobs(still.store, still.layout)
    assert codes(still, job) == [code]


def test_secrets_are_lost_if_the_submitter_dies_before_the_supervisor_starts(still: Still) -> None:
    still.cluster()
    job = still.job()
    still.change("UPDATE job SET needs_secrets = 1, spawner = ?", dead())
    assert reconciler.recover_jobs(still.store, still.layout)
    (error,) = json.loads(still.state(job)["errors"])
    assert (error["code"], error["message"]) == (
        "JobSecretsLost",
        "The process that held its secrets disappeared while the job was queued; they were never saved:"
        " submit it again",
    )


@pytest.mark.parametrize(
    ("before", "change", "state"),
    [
        ({}, {"state": "succeeded"}, "succeeded"),
        ({}, {"supervisor": "1:2:another"}, "running"),
        ({}, {"supervisor": "", "spawner": None}, "running"),
        ({"supervisor": "", "spawner": dead()}, {"spawner": None}, "running"),
    ],
)
def test_a_job_that_changed_hands_while_we_looked_is_left_alone(
    still: Still, monkeypatch, before: dict[str, object], change: dict[str, object], state: str
) -> None:
    job = lost(still, **before)

    def meanwhile(find: object) -> None:
        for name, value in change.items():
            still.change(f"UPDATE job SET {name} = ?", process.own_identity() if value is None else value)

    monkeypatch.setattr(termination, "kill", meanwhile)
    reconciler.recover_jobs(still.store, still.layout)
    assert (still.state(job)["state"], codes(still, job)) == (state, [])
