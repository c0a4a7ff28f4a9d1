"""Jobs with a supervisor's view of them, for tests."""

from __future__ import annotations

from batchai_magics.backends.local.watch.outcome_writer import OutcomeWriter
from batchai_magics.models.resource_ids import ResourceId
from tests.backends.local.still import Still


def started(still: Still, **columns: object) -> tuple[ResourceId, OutcomeWriter]:
    """A job that has its node, with a supervisor's view of it."""
    still.cluster()
    still.prepare()
    job = still.job()
    still.schedule()
    still.change("UPDATE job SET supervisor = ''")
    for name, value in columns.items():
        still.change(f"UPDATE job SET {name} = ?", value)
    return job, writer_of(still, job, still.state(job)["guid"])


def writer_of(still: Still, job: ResourceId, guid: str) -> OutcomeWriter:
    return OutcomeWriter(still.store, job.key, guid, still.layout.job(guid))
