"""The jobs of an experiment as text: many of them, and none."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from batchai_magics.commands.output.command_result import Result
from batchai_magics.commands.output.job_list import JOBS_PER_CHUNK, JobList
from batchai_magics.models.resource_ids import Kind
from batchai_magics.models.resources import JobResource
from tests.widgets.scripted_job import ScriptedBackend, resource


def jobs(count: int) -> list[JobResource]:
    job = resource()
    strange = job.spec.model_copy(update={"std_out_err_path_prefix": "/é\u202e\x7f"})
    names = (job.id.parent.child(Kind.JOB, f"job{number}") for number in range(count))
    return [replace(job, id=id, spec=strange) for id in names]


@pytest.mark.parametrize("count", [0, 1, JOBS_PER_CHUNK, 2 * JOBS_PER_CHUNK + 1])
def test_json_in_pieces_is_the_json_of_all(count: int, tmp_path: Path) -> None:
    pieces = list(Result(JobList(jobs(count), ScriptedBackend(tmp_path))).text_parts("json"))
    assert len(pieces) == 1 + -(-count // JOBS_PER_CHUNK)
    assert "".join(pieces) == Result(jobs(count)).to_text("json")
    assert len(json.loads("".join(pieces))) == count
