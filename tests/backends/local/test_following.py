"""Jobs that are shown and followed: no change is missed, whoever deletes them."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from batchai_magics.backends.local import process, reconciler
from batchai_magics.backends.local.backend import LocalBackend
from batchai_magics.backends.local.runner import LocalRunner
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.backends.local.state.job_table import set_terminating
from batchai_magics.backends.local.state.sqlite_repository import SqliteRepository
from batchai_magics.backends.local.state.store import Store
from batchai_magics.backends.service.context import OUTPUT_ROOT
from batchai_magics.backends.service.runner import Run, RunStatus
from batchai_magics.errors import NotFoundError, StorageError
from batchai_magics.follow import Event, Follower, StateChanged
from batchai_magics.models.job_execution import STDOUTERR
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.states import ExecutionState
from tests.backends.local.still import WORKSPACE, Still
from tests.patience import PATIENCE_S
from tests.world import until

COUNT = 6
LOGS = ("execution.log", "stderr.txt", "stdout.txt")


@pytest.fixture
def jobs(still: Still) -> list[ResourceId]:
    """Running jobs of which each has printed a line."""
    still.backend.runner.quiet_s = math.inf  # else a pass in between, at whatever time
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


def test_change_by_another_process_is_seen_by_the_next_poll(still: Still, jobs: list[ResourceId]) -> None:
    watch, other = Watch(still, jobs), LocalBackend(LocalSettings(home=still.home))
    with other.store.write() as db:
        set_terminating(db, still.state(jobs[2])["guid"])
    other.close()
    changes = (event for event in watch.look() if isinstance(event, StateChanged))
    states = [(event.job.id.name, event.job.state) for event in changes]
    assert states == [("j2", ExecutionState.TERMINATING)]


def test_death_of_a_supervisor_is_seen_by_the_next_poll(
    still: Still, jobs: list[ResourceId], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = still.backend.status(jobs)
    assert still.backend.status(jobs, since=first) is first
    monkeypatch.setattr(process, "is_alive", lambda name: False)
    states = {job.state for job in still.backend.status(jobs, since=first).states.values()}
    assert states == {ExecutionState.FAILED}


def test_change_during_a_shared_pass_is_handled_by_the_next(
    still: Still, jobs: list[ResourceId], monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[str] = []
    monkeypatch.setattr(reconciler, "reconcile_if_due", lambda *_, **__: passes.append("pass") or [])
    still.backend.reconcile()
    passes.clear()
    still.change("UPDATE job SET started = ?", time.time())
    for age_s in (math.inf, 0.0):
        still.backend.runner.fresh_s = age_s
        still.backend.reconcile()
    assert passes == ["pass"]


def test_concurrent_threads_share_one_successful_pass(still: Still, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, may_end, passes = threading.Barrier(10), threading.Event(), list[str]()
    mine = LocalRunner(still.store, still.layout, LocalSettings())

    def one_pass(*_: object, **__: object) -> list[object]:
        passes.append("pass")
        if len(passes) == 1:
            raise StorageError("the database is locked")
        may_end.wait(PATIENCE_S)
        return []

    def ask() -> None:
        begun.wait(PATIENCE_S)
        mine.reconcile()

    mine.fresh_s = mine.quiet_s = math.inf
    monkeypatch.setattr(reconciler, "reconcile_if_due", one_pass)
    with pytest.raises(StorageError):
        mine.reconcile()
    with ThreadPoolExecutor(10) as pool:
        done = [pool.submit(ask) for _ in range(10)]
        until(lambda: len(passes) > 1)
        may_end.set()
    assert [each.result() for each in done] == [None] * 10
    assert passes == ["pass"] * 2


# -- deleted meanwhile


class DeletedMeanwhile(LocalRunner):
    """The engine of a home where another process deletes each job that is asked for."""

    def status(self, runs: Sequence[Run]) -> Sequence[RunStatus]:
        with contextlib.closing(Store(self.layout.database)) as others:
            repository = SqliteRepository(others)
            for run in runs:
                repository.delete(ResourceId.parse(f"{WORKSPACE}/experiments/e/jobs/{run.name}"))
        return super().status(runs)


def test_job_deleted_while_it_is_read_is_shown_in_its_last_state(still: Still) -> None:
    still.cluster()
    still.prepare()
    ids = [still.job(name) for name in ("a", "b")]
    backend = still.backend
    engine = DeletedMeanwhile(still.store, still.layout, backend.settings)
    backend.context = replace(backend.context, runner=engine)
    assert backend.show(ids[0]).state is ExecutionState.QUEUED
    assert [job.state for job in backend.list(still.experiment, Kind.JOB)] == [ExecutionState.QUEUED]
    assert not backend.list(still.experiment, Kind.JOB)


def test_a_job_deleted_while_its_status_is_read_has_the_status_before(still: Still) -> None:
    cluster = still.cluster()
    still.prepare()
    id = still.job()
    reads: list[str] = []

    def delete_after_first_read(statement: str) -> None:
        if reads and statement.startswith("SELECT"):
            with contextlib.closing(Store(still.layout.database)) as others:
                SqliteRepository(others).delete(id)
        if "FROM resource" in statement:
            reads.append(statement)

    with still.store.read() as db:
        db.set_trace_callback(delete_after_first_read)
    assert still.backend.status([id]).of(id).state is ExecutionState.QUEUED
    assert len(reads) == 1
    with pytest.raises(NotFoundError):
        still.backend.show(id)
    assert [*still.backend.status([id, cluster]).states] == [cluster.key]
