"""Jobs that are told to stop: whose supervisor is signalled, and whose looks by itself."""

from __future__ import annotations

import signal
import subprocess

import pytest

from batchai_magics.backends.local import process
from batchai_magics.backends.local.state import job_table
from batchai_magics.backends.service.context import run_of
from batchai_magics.models.states import ExecutionState
from tests.backends.local.still import Still


@pytest.mark.slow
@pytest.mark.parametrize(("has_begun", "code"), [(True, -signal.SIGTERM), (False, 0)])
def test_a_supervisor_is_signalled_only_when_its_job_has_begun(
    still: Still, has_begun: bool, code: int
) -> None:
    still.cluster()
    still.prepare()
    job = still.job()
    still.schedule()
    loading = subprocess.Popen(["cat"], stdin=subprocess.PIPE)  # like one that hears no signal yet
    still.change("UPDATE job SET supervisor = ?", process.identity(loading.pid))
    guid = still.state(job)["guid"]
    if has_begun:
        with still.store.write() as db:
            job_table.begin(db, guid)
    still.backend.runner.stop([run_of(still.backend.context.repository.get(job))])
    loading.communicate()
    assert loading.returncode == code
    assert still.state(job)["state"] == ExecutionState.TERMINATING.value
