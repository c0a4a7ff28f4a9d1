"""Starts the program that takes the next step of a sweep, once one of its trials has ended."""

from __future__ import annotations

import contextlib
import subprocess
import sys

from batchai_magics.backends.folders.layout import JobLayout
from batchai_magics.backends.local.state import job_table, resource_table
from batchai_magics.backends.local.state.store import Store
from batchai_magics.backends.local.watch import detached_process
from batchai_magics.backends.local.watch.detached_process import Program
from batchai_magics.models.states import ExecutionState
from batchai_magics.records.record_files import TRIAL
from batchai_magics.records.trial_record import TrialRecord
from batchai_magics.untrusted_files import read_file

PROGRAM = "jobs.sweeps.next_step"  # of an upper layer: a process of its own, which this one never waits for


def start(store: Store, job: JobLayout) -> list[subprocess.Popen[bytes]]:
    """Starts it if the trial has ended in a way that its sweep wants to know of."""
    with contextlib.suppress(OSError, ValueError):  # whoever reads the sweep takes the step then
        record = TrialRecord.from_text(read_file(job.records / TRIAL))
        with store.read() as db:
            run = job_table.find_by_guid(db, job.root.name)
            id = resource_table.by_guid(db, job.root.name).id
        if run is None or run.is_open:
            return []
        if record.steps_on == "end" or run.state is ExecutionState.FAILED:
            arguments = (str(job.root.parents[1]), job.root.name, id)
            program = Program(PROGRAM, arguments, sys.executable, job.supervisor_log)
            return [detached_process.start(program, secrets={})]
    return []
