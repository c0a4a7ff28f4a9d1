"""What every display of a job shows."""

from pathlib import Path

import pytest

from batchai_magics.cards.job_card import to_text
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.job_overview import job_overview
from batchai_magics.models.states import ExecutionState
from tests.widgets.scripted_job import JOB, ScriptedBackend, resource


class WithoutLogs(ScriptedBackend):
    def files(self, *_args, **_options):
        pytest.fail("there is no log to read before a job has started")

    read = tail = files


def test_no_log_is_read_of_a_job_that_has_not_started(tmp_path: Path) -> None:
    backend = WithoutLogs(tmp_path)
    backend.job = resource(ExecutionState.QUEUED)
    assert "queued" in to_text(job_overview(Job(backend, JOB)))
