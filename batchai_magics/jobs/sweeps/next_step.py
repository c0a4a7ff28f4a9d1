"""The process that takes a sweep's next step after the end of a trial, without any client.

Started as `HOME GUID JOB-ID` by the supervisor of the trial, whose record names the sweep.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

from batchai_magics.backends.base.backend_registry import load_settings, open_backend
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.errors import NotFoundError
from batchai_magics.jobs.sweeps.sweep_definition import SweepFiles
from batchai_magics.jobs.sweeps.sweep_handle import Sweep
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.records.record_files import TRIAL
from batchai_magics.records.trial_record import TrialRecord
from batchai_magics.untrusted_files import read_file


def main() -> None:
    """Takes the step, unless the sweep was deleted."""
    home, guid, job = sys.argv[1:4]
    sys.stdin.readline()  # secrets: there are none
    record = TrialRecord.from_text(read_file(Layout(Path(home)).job(guid).records / TRIAL))
    os.environ |= {"BATCHAI_HOME": home, "BATCHAI_BACKEND": "local"}
    with contextlib.closing(open_backend(load_settings())) as backend:
        id = ResourceId.parse(job)
        files = SweepFiles(backend, record.share, id.parent.name)
        sweep = Sweep(backend, id.parent, files, record.sweep)
        with contextlib.suppress(NotFoundError):
            if backend.ownership:  # on a server, further trials belong to the same user
                sweep.owner = backend.ownership.owners(id.key).get(id.key, "")
                owners = backend.ownership.owners(id.parent.key)
                jobs = [run for trial in sweep.stored_trials() for run in trial.runs]
                if any(owners.get(run.id.key, "") != sweep.owner for run in jobs):
                    return  # a job of another user claims to belong to the sweep
            sweep.step()
