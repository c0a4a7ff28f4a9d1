"""Jobs with a supervisor's view of them, for tests."""

from __future__ import annotations

from batchai_magics.backends.local.supervisor import LocalReport
from batchai_magics.models.resource_ids import ResourceId
from tests.backends.local.still import Still


def started(still: Still, **columns: object) -> tuple[ResourceId, LocalReport]:
    """A job that has its node, with a supervisor's view of it."""
    still.cluster()
    still.prepare()
    job = still.job()
    still.schedule()
    still.change("UPDATE job SET supervisor = ''")
    for name, value in columns.items():
        still.change(f"UPDATE job SET {name} = ?", value)
    return job, writer_of(still, still.state(job)["guid"])


def writer_of(still: Still, guid: str) -> LocalReport:
    return LocalReport(still.store, still.layout.job(guid))


def is_open(writer: LocalReport) -> bool:
    run = writer.read()
    return run is not None and run.is_open


def is_assigned(writer: LocalReport) -> bool:
    run = writer.read()
    return run is not None and run.is_assigned
