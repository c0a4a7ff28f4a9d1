"""Looks at jobs that are followed: of what has not changed nothing is read again, and no change is missed."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from batchai_magics.backends.folders import entries
from batchai_magics.backends.local import process, reconciler, runner
from batchai_magics.backends.local.backend import LocalBackend
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.backends.local.state.job_table import set_terminating
from batchai_magics.backends.service.context import OUTPUT_ROOT
from batchai_magics.follow import Event, Follower, LogBytes, StateChanged
from batchai_magics.models.job_execution import STDOUTERR
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.states import ExecutionState
from tests.backends.local.still import Still

COUNT = 6
LOGS = ("execution.log", "stderr.txt", "stdout.txt")


@pytest.fixture
def jobs(still: Still, monkeypatch: pytest.MonkeyPatch) -> list[ResourceId]:
    """Running jobs of which each has printed a line."""
    monkeypatch.setattr(runner, "QUIET_S", math.inf)  # else a pass in between, at whatever time
    still.cluster(scale={"manual": {"targetNodeCount": COUNT}})
    still.prepare()
    ids = [still.job(f"j{number}") for number in range(COUNT)]
    still.schedule()
    still.change("UPDATE job SET state = 'running', started = ?", time.time())
    for id in ids:
        for name in (*LOGS, "stdout-wk-0.txt"):
            log_of(still, id).with_name(name).write_text("begin\n")
    return ids


def log_of(still: Still, job: ResourceId) -> Path:
    record = still.backend.context.repository.get(job)
    segment = still.backend.show(job).output_path_segment
    return still.home / record.more[OUTPUT_ROOT] / segment / STDOUTERR / "stdout.txt"


class Watch:
    """Followers of jobs that look at them all, a second after the last time."""

    def __init__(self, still: Still, jobs: list[ResourceId]) -> None:
        self._now = 0.0
        self._followers = [Follower(still.backend, id, clock=lambda: self._now) for id in jobs]
        while self.look():  # until they know all there is
            pass

    def look(self) -> list[Event]:
        """What is new."""
        self._now += 1
        return [event for follower in self._followers for event in follower.poll()]

    def printed(self) -> list[bytes]:
        """The new output."""
        return [event.chunk.data for event in self.look() if isinstance(event, LogBytes)]


class Reads:
    """What a look reads: statements of the store, folders, and files whose status is asked."""

    def __init__(self, still: Still, monkeypatch: pytest.MonkeyPatch) -> None:
        self._still = still
        self.folders: list[str] = []
        self.files: list[str] = []
        scandir, at = os.scandir, entries.Entry.at

        def noted_folder(path: Any) -> Any:
            self.folders.append(str(path))
            return scandir(path)

        def noted_file(root: Path, path: Any) -> entries.Entry:
            self.files.append(path.name)
            return at(root, path)

        monkeypatch.setattr(os, "scandir", noted_folder)
        monkeypatch.setattr(entries.Entry, "at", noted_file)

    def of(self, look: Callable[[], object]) -> list[str]:
        """The statements of a look."""
        statements: list[str] = []
        self.folders.clear()
        self.files.clear()
        with self._still.store.read() as db:
            db.set_trace_callback(statements.append)
            look()
            db.set_trace_callback(None)
        return statements


def test_a_look_at_silent_jobs_reads_a_record_and_the_sizes_of_logs_for_each(
    still: Still, jobs: list[ResourceId], monkeypatch: pytest.MonkeyPatch
) -> None:
    watch, reads = Watch(still, jobs), Reads(still, monkeypatch)
    statements = reads.of(watch.look)
    assert (len(reads.folders), reads.files) == (COUNT, [*LOGS] * COUNT)
    records = [each for each in statements if "FROM resource WHERE key = " in each]
    assert len(records) == COUNT
    assert {each.split()[0] for each in statements if each not in records} <= {"BEGIN", "COMMIT", "PRAGMA"}
    assert len(statements) - COUNT <= 6  # whatever their number


def test_a_line_is_with_its_follower_at_the_next_look(still: Still, jobs: list[ResourceId]) -> None:
    watch = Watch(still, jobs)
    with log_of(still, jobs[3]).open("a") as log:
        log.write("more\n")
    assert watch.printed() == [b"more\n"]
    assert watch.printed() == []


def test_what_another_process_records_is_seen_at_the_next_look(still: Still, jobs: list[ResourceId]) -> None:
    watch, other = Watch(still, jobs), LocalBackend(LocalSettings(home=still.home))
    with other.store.write() as db:
        set_terminating(db, still.state(jobs[2])["guid"])
    other.close()
    changes = (event for event in watch.look() if isinstance(event, StateChanged))
    states = [(event.job.id.name, event.job.state) for event in changes]
    assert states == [("j2", ExecutionState.TERMINATING)]


def test_the_death_of_a_supervisor_is_seen_at_the_next_look(
    still: Still, jobs: list[ResourceId], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = still.backend.status(jobs)
    assert still.backend.status(jobs, since=first) is first
    monkeypatch.setattr(process, "is_alive", lambda name: False)
    states = {job.state for job in still.backend.status(jobs, since=first).states.values()}
    assert states == {ExecutionState.FAILED}


def test_what_is_recorded_while_a_pass_is_shared_is_due_at_the_next(
    still: Still, jobs: list[ResourceId], monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[str] = []
    monkeypatch.setattr(reconciler, "reconcile_if_due", lambda *_, **__: passes.append("pass") or [])
    still.backend.reconcile()
    passes.clear()
    still.change("UPDATE job SET started = ?", time.time())
    for age_s in (math.inf, 0.0):
        monkeypatch.setattr(runner, "FRESH_S", age_s)
        still.backend.reconcile()
    assert passes == ["pass"]
