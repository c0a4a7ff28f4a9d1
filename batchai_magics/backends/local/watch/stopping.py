"""Stopping jobs: asking, waking their supervisors, and waiting the moment until they are gone."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Sequence

from batchai_magics.backends.local.state import jobs
from batchai_magics.backends.local.state.store import Store
from batchai_magics.backends.local.watch import process
from batchai_magics.backends.local.watch.verdict import record
from batchai_magics.backends.node.outcome import TERMINATE, stopped
from batchai_magics.backends.service import refusals
from batchai_magics.models.ids import ResourceId

PATIENCE_S = 10.0  # a supervisor ends its processes within two seconds


def ask(store: Store, key: str) -> list[str]:
    """Notes that a job has to stop; ends it at once when it has no nodes yet. Gives the guids to wake."""
    with store.write() as db:
        job = jobs.find_open(db, key=key)
        if job is None:
            return []
        jobs.ask_to_stop(db, key, TERMINATE)
        if job.is_assigned:
            jobs.note_terminating(db, key)
        else:
            record(db, key, job.guid, stopped(TERMINATE))
        return [job.guid]


def wake(store: Store, guids: Iterable[str]) -> None:
    """Has the supervisors of these jobs look at the store now."""
    with store.read() as db:
        supervisors = [jobs.supervisor_of(db, guid) for guid in guids]
    for supervisor in supervisors:
        if process.is_alive(supervisor):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid_of(supervisor), signal.SIGTERM)


def wait_for_end(store: Store, jobs: Sequence[ResourceId], *, settle: Callable[[], None]) -> None:
    """Waits until the jobs have ended: a few seconds at most, since they were told to."""
    deadline = time.monotonic() + PATIENCE_S
    for job in jobs:
        while _is_open(store, job.key):
            if time.monotonic() > deadline:
                raise refusals.does_not_end(job)
            time.sleep(0.02)
            settle()


def _is_open(store: Store, key: str) -> bool:
    with store.read() as db:
        return jobs.find_open(db, key=key) is not None
