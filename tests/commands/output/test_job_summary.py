"""What `-o json` of `show` and `ps` prints of a job: what a person asks of it, and nothing that is empty."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from batchai_magics.commands.output.command_result import Result
from batchai_magics.commands.output.job_list import JobList
from batchai_magics.commands.output.job_summary import job_summary, summary_of
from batchai_magics.follow.job_errors import error_without_logs
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.job_model import TAIL_BYTES
from batchai_magics.models.job_execution import RankExit
from batchai_magics.models.runs.labels import Labels
from batchai_magics.models.states import ExecutionState
from tests.widgets.scripted_job import ScriptedBackend, resource

TRACE = "Traceback (most recent call last):\n  File \"/job/train.py\", line 3, in load\nKeyError: 'x'\n"
SUCCEEDED = resource(ExecutionState.SUCCEEDED, exit_code=0)


def empty_values(data: Any) -> Iterator[object]:
    for value in data.values() if isinstance(data, dict) else data:
        if isinstance(value, (dict, list)):
            yield from empty_values(value)
        if value in (None, "", [], {}):
            yield value


def backend_with(tmp_path: Path, text: str) -> ScriptedBackend:
    backend = ScriptedBackend(tmp_path)
    backend.write(text)
    backend.job = SUCCEEDED
    return backend


@pytest.mark.parametrize("job", [resource(), resource(ExecutionState.RUNNING), SUCCEEDED])
def test_no_field_is_empty(job) -> None:
    assert not list(empty_values(job_summary(job, Labels(), None)))


def test_times_are_seconds_and_labels_are_there() -> None:
    shown = job_summary(SUCCEEDED, Labels(("good",), "try 3", {"lr": 0.1}), None)
    execution = SUCCEEDED.execution
    assert shown["elapsed_s"] == round((execution.ended - execution.started).total_seconds(), 3)
    assert (shown["state"], shown["exit_code"]) == ("succeeded", 0)
    assert (shown["parameters"], shown["tags"], shown["note"]) == ({"lr": 0.1}, ["good"], "try 3")


def test_a_running_job_that_may_hang_has_its_warnings(tmp_path: Path) -> None:
    backend = backend_with(tmp_path, "")
    backend.write(TRACE, "stderr.txt")
    backend.job = resource(ExecutionState.RUNNING)
    (warning,) = summary_of(Job(backend, backend.job.id))["warnings"]
    assert warning == "stderr has a traceback, and the job goes on: /job/train.py:3: KeyError: 'x'"


def test_the_headline_metric_has_its_best(tmp_path: Path) -> None:
    backend = backend_with(tmp_path, "step 1 loss 0.25\nstep 2 loss 0.5\n")
    expected = {"name": "loss", "value": 0.5, "step": 2, "best": 0.25, "best_step": 1}
    assert summary_of(Job(backend, SUCCEEDED.id))["metric"] == expected
    (listed,) = JobList([SUCCEEDED], backend).to_summaries()
    assert listed["metric"] == expected


def test_a_list_tells_no_best_of_a_log_whose_beginning_it_does_not_read(tmp_path: Path) -> None:
    lines = [f"step {step} loss {1 + step}\n" for step in range(TAIL_BYTES // 10)]
    backend = backend_with(tmp_path, "".join(lines))
    (listed,) = JobList([SUCCEEDED], backend).to_summaries()
    assert listed["metric"] == {"name": "loss", "value": float(len(lines)), "step": len(lines) - 1}
    assert summary_of(Job(backend, SUCCEEDED.id))["metric"]["best"] == 1


def test_a_metric_that_is_no_number_stays_json(tmp_path: Path) -> None:
    backend = backend_with(tmp_path, "step 1 loss 0.25\nstep 2 loss nan\n")
    text = json.dumps(summary_of(Job(backend, SUCCEEDED.id)), allow_nan=False)
    assert json.loads(text)["metric"]["value"] == "NaN"
    assert not math.isnan(json.loads(text)["metric"]["best"])


def test_the_process_that_failed_first_is_named() -> None:
    ranks = (RankExit(2, "tvm-1690037429_2-20261121t033128z-p", 9), RankExit(0, "n", 0))
    job = resource(ExecutionState.FAILED, exit_code=9, ranks=ranks)
    shown = job_summary(job, Labels(), None, error_without_logs(job))
    assert shown["failure"]["rank"] == 2
    assert shown["failure"]["node"] == "node 2"
    assert "exit code 9" in shown["failure"]["message"]


def test_a_query_selects_from_the_summary(tmp_path: Path) -> None:
    jobs = JobList([SUCCEEDED], backend_with(tmp_path, "step 1 loss 0.25\n"))
    assert Result(jobs, "[].metric.best", is_summary=True).data == [0.25]
    assert Result(jobs, "[].executionState").data == ["succeeded"]
