"""Records in the database: read at one moment, in one transaction with what the engine keeps."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from batchai_magics.backends.base import NewJob
from batchai_magics.backends.local.state.sqlite_repository import SqliteRepository
from batchai_magics.backends.local.state.store import Store
from batchai_magics.backends.service import job_admission
from batchai_magics.backends.service.repository import CLUSTER_GUID
from batchai_magics.backends.service.run_labels import RunRecords
from batchai_magics.errors import NotFoundError
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.resource_ids import Kind
from batchai_magics.models.runs.labels import Labels
from batchai_magics.records.record_files import LABELS
from tests.backends.service.records.homes import (
    EXPERIMENT,
    JOB,
    WORKSPACE,
    SqliteHome,
    filled,
    record,
)
from tests.patience import PATIENCE_S
from tests.wire_bodies import plain_job


@pytest.fixture
def home(tmp_path: Path) -> SqliteHome:
    return SqliteHome(tmp_path / "home")


@pytest.fixture
def store(home: SqliteHome) -> Iterator[Store]:
    """A store with a workspace, an experiment and a cluster."""
    filled(home)
    opened = Store(home.path)
    yield opened
    opened.close()


@pytest.fixture
def records(store: Store) -> SqliteRepository:
    return SqliteRepository(store)


def change(records: SqliteRepository, text: str) -> None:
    records.change(WORKSPACE, lambda now: now.changed({}, spec=text))


def test_all_reads_of_a_snapshot_are_of_one_moment(home: SqliteHome, records: SqliteRepository) -> None:
    with records.snapshot():
        before = records.get(WORKSPACE)
        change(home.opened(), "new")
        assert records.get(WORKSPACE) == before
    assert records.get(WORKSPACE).spec == "new"


def test_a_write_ends_the_snapshot(home: SqliteHome, records: SqliteRepository) -> None:
    with records.snapshot():
        records.get(EXPERIMENT)
        home.opened().change(EXPERIMENT, lambda now: now.changed({}, spec="new"))
        change(records, "ours")
        assert [each.spec for each in records.find_all([EXPERIMENT, WORKSPACE])] == ["new", "ours"]


def test_leaving_a_snapshot_unblocks_other_threads(store: Store, records: SqliteRepository) -> None:
    with ThreadPoolExecutor() as pool, records.snapshot():
        records.get(WORKSPACE)
        with records.snapshot():
            store.leave_snapshot()
            assert pool.submit(records.get, EXPERIMENT).result(PATIENCE_S).name == "e"
        assert records.get(WORKSPACE).name == "w"


def test_snapshot_within_a_transaction_sees_its_changes(store: Store, records: SqliteRepository) -> None:
    with records.transaction():
        change(records, "new")
        with records.snapshot():
            assert (records.get(WORKSPACE).spec, store.is_writing) == ("new", True)
    assert not store.is_writing


def test_rows_of_the_engine_are_deleted_with_their_resource(home: SqliteHome, store: Store) -> None:
    records = SqliteRepository(store)
    cluster, job = WORKSPACE.child(Kind.CLUSTER, "d"), record(JOB, guid="j", **{CLUSTER_GUID: "d"})
    records.insert(record(cluster, guid="d"))
    records.insert(job)
    home.begin(records, job)
    with store.write() as db:
        db.execute("INSERT INTO node (id, cluster, ordinal, state, since) VALUES ('n', 'd', 0, 'idle', 1)")
    records.delete(EXPERIMENT)
    assert rows(store) == {"job": 0, "cluster": 1, "node": 1}
    records.delete(cluster)
    assert rows(store) == {"job": 0, "cluster": 0, "node": 0}


def rows(store: Store) -> dict[str, int]:
    with store.read() as db:
        tables = ("job", "cluster", "node")
        return {name: db.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in tables}


def test_error_about_a_missing_record_suggests_the_newest_names(records: SqliteRepository) -> None:
    beside = WORKSPACE.child(Kind.EXPERIMENT, "f")
    ids = [*(EXPERIMENT.child(Kind.JOB, f"j{number}") for number in range(9)), beside]
    for id in (*ids, beside.child(Kind.JOB, "elsewhere")):
        records.insert(record(id, guid=id.name))
    with pytest.raises(NotFoundError) as caught:
        records.get(EXPERIMENT.child(Kind.JOB, "nope"))
    assert (caught.value.code, caught.value.message) == (
        "JobNotFound",
        "The specified job nope is not found",
    )
    assert "j8, j7, j6, j5, j4, j3, j2, j1" in caught.value.hint
    assert "j0" not in caught.value.hint
    assert "elsewhere" not in caught.value.hint


def test_a_job_with_the_baseline_tag_is_created_with_its_pin_or_not_at_all(still, monkeypatch):
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    still.cluster()
    id = still.experiment.child(Kind.JOB, "j")
    body = plain_job(still.workspace.child(Kind.CLUSTER, "c"))
    job = NewJob(id, JobSpec.from_wire(body), {LABELS: Labels(("baseline",)).to_text()})
    with monkeypatch.context() as patch:
        patch.setattr(RunRecords, "pin", killed)
        with pytest.raises(KeyboardInterrupt):
            job_admission.create_jobs(still.context(), [job])
    assert still.backend.names(still.experiment, Kind.JOB) == []
    job_admission.create_jobs(still.context(), [job])
    assert RunRecords(still.context()).baseline(still.experiment) == "j"
