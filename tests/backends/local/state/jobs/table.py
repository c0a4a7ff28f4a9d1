"""The table of jobs: runs put there, and all that are there."""

from __future__ import annotations

from batchai_magics.backends.local.state import job_table
from batchai_magics.backends.local.state.job_table import JobRow
from batchai_magics.models.resource_ids import Kind
from batchai_magics.models.states import ExecutionState
from tests.backends.local.still import Still

NOW = 1_767_323_045.0
QUEUED, RUNNING, TERMINATING, SUCCEEDED, FAILED = (
    ExecutionState.QUEUED,
    ExecutionState.RUNNING,
    ExecutionState.TERMINATING,
    ExecutionState.SUCCEEDED,
    ExecutionState.FAILED,
)
STATES = (QUEUED, RUNNING, TERMINATING, SUCCEEDED, FAILED)
OPEN = (QUEUED, RUNNING, TERMINATING)


def put(still: Still, name: str, state: ExecutionState = QUEUED, **values: object) -> JobRow:
    """Writes a run down, with the guid `run NAME`; gives it as it was written."""
    fields = {
        "cluster": "c",
        "node_count": 1,
        "priority": 1,
        "output_root": "/out",
        "python": "/python",
        "needs_secrets": False,
        "engine": (),
        "changed": 1.0,
        **values,
    }
    row = JobRow(key=key(still, name), guid=f"run {name}", state=state, **fields)
    with still.store.write() as db:
        job_table.insert(db, row)
    return row


def key(still: Still, name: str) -> str:
    return still.experiment.child(Kind.JOB, name).key


def table(still: Still) -> list[JobRow]:
    """All runs, in the order of their keys."""
    with still.store.read() as db:
        return [JobRow.of(row) for row in db.execute("SELECT * FROM job ORDER BY key")]
