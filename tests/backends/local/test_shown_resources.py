"""Jobs are shown as they were read, whoever deletes them meanwhile."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace

import pytest

from batchai_magics.backends.local.runner import LocalRunner
from batchai_magics.backends.local.state.sqlite_repository import SqliteRepository
from batchai_magics.backends.local.state.store import Store
from batchai_magics.backends.service.runner import Run, RunStatus
from batchai_magics.errors import NotFoundError
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.states import ExecutionState
from tests.backends.local.still import WORKSPACE, Still


class DeletedMeanwhile(LocalRunner):
    """The engine of a home where another process deletes each job that is asked for."""

    def status(self, runs: Sequence[Run]) -> Sequence[RunStatus]:
        with contextlib.closing(Store(self.layout.database)) as others:
            repository = SqliteRepository(others)
            for run in runs:
                repository.delete(ResourceId.parse(f"{WORKSPACE}/experiments/e/jobs/{run.name}"))
        return super().status(runs)


def test_a_job_deleted_while_it_is_read_is_shown_as_it_was(still: Still) -> None:
    still.cluster()
    still.prepare()
    ids = [still.job(name) for name in ("a", "b")]
    backend = still.backend
    runner = DeletedMeanwhile(still.store, still.layout, backend.settings)
    backend.context = replace(backend.context, runner=runner)
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


def test_the_status_of_some_jobs_is_that_of_a_list(still: Still) -> None:
    still.cluster()
    first, second = still.job("A"), still.job("b")
    missing = still.experiment.child(Kind.JOB, "missing")
    still.change("DELETE FROM job WHERE guid = (SELECT guid FROM resource WHERE key = ?)", second.key)
    listed = still.backend.list(still.experiment, Kind.JOB)
    states = still.backend.status([second, missing, first]).states
    assert sorted(states) == [first.key, second.key]
    assert [states[job.id.key] for job in listed] == list(listed)
    assert [job.state for job in listed] == [ExecutionState.QUEUED, ExecutionState.FAILED]
