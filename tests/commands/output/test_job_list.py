"""The jobs of an experiment as text and as JSON: many of them, one, and none."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from batchai_magics.commands.output.command_result import Result
from batchai_magics.commands.output.job_list import MAX_METRICS_READ, JobList, NewestFirst
from batchai_magics.commands.output.job_summary import job_summary, summary_of
from batchai_magics.commands.output.live_run import watch_table
from batchai_magics.commands.output.text_table import Table
from batchai_magics.follow.job_errors import error_without_logs
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.job_model import TAIL_BYTES
from batchai_magics.models.job_execution import RankExit
from batchai_magics.models.resource_ids import Kind
from batchai_magics.models.resources import JobResource
from batchai_magics.models.runs.labels import Labels
from batchai_magics.models.states import ExecutionState
from tests.backends.local.still import Still, no_supervisor, still
from tests.widgets.scripted_job import ScriptedBackend, resource

__all__ = ["no_supervisor", "still"]


def jobs(count: int) -> list[JobResource]:
    job = resource()
    strange = job.spec.model_copy(update={"std_out_err_path_prefix": "/é\u202e\x7f"})
    names = (job.id.parent.child(Kind.JOB, f"job{number}") for number in range(count))
    return [replace(job, id=id, spec=strange) for id in names]


def listed(tmp_path: Path, text: str, **options: object) -> dict[str, object]:
    backend = ScriptedBackend(tmp_path)
    backend.write(text)
    table = JobList([resource(ExecutionState.SUCCEEDED, exit_code=0)], backend, **options).to_table()
    return dict(zip(table.titles, table.rows[0], strict=True))


@pytest.mark.parametrize("spec", ["{", '{"properties": {}}', '{"properties": []}'])
@pytest.mark.parametrize("output", ["json", "table"])
def test_job_with_a_damaged_record_is_left_out_with_a_warning(still: Still, spec: str, output: str) -> None:
    still.cluster()
    damaged, *_ = [still.job(name) for name in ("damaged", "whole")]
    still.change("UPDATE resource SET spec = ? WHERE key = ?", spec, damaged.key)
    listed = JobList(still.backend.list(still.experiment, Kind.JOB), still.backend)
    with pytest.warns(RuntimeWarning, match="the record of job damaged is damaged"):
        text = "".join(Result(listed).text_pieces(output))
    assert ("whole" in text, "damaged" in text) == (True, False)
    if output == "json":
        assert [job["name"] for job in json.loads(text)] == ["whole"]


def test_the_newest_job_is_shown_first(tmp_path: Path) -> None:
    many = jobs(MAX_METRICS_READ + 1)
    shown = NewestFirst(many, ScriptedBackend(tmp_path))
    names = [job.id.name for job in reversed(many)]
    assert [row[0] for row in shown.to_table().rows] == names
    assert [each["name"] for each in shown.to_summaries()] == names


def test_the_newest_jobs_have_a_curve_of_their_metric_and_no_other_list_has(tmp_path: Path) -> None:
    backend = ScriptedBackend(tmp_path)
    backend.write("".join(f"step={step} loss={9.3 - step / 10}\n" for step in (1, 2, 3)))
    job = resource(ExecutionState.SUCCEEDED, exit_code=0)
    table = NewestFirst([job], backend).to_table()
    assert dict(zip(table.titles, table.rows[0], strict=True))["Curve"] == "█▅▁"
    assert "Curve" not in JobList([job], backend).to_table().titles


def test_a_table_that_is_too_long_keeps_its_first_rows() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=40, height=4)
    watch_table([Table(("Name",), tuple((f"job-{number}",) for number in range(9)))], console)
    assert "job-0" in console.file.getvalue()
    assert "job-8" not in console.file.getvalue()


KERAS = "".join(f"epoch={n} loss={3 - n} accuracy=0.{n}\nepoch={n} val_loss={4 - n}\n" for n in (1, 2))


def test_run_is_listed_with_its_headline_metric_or_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert listed(tmp_path, KERAS)["Metric"] == "val_loss 2"
    monkeypatch.setenv("BATCHAI_HEADLINE_METRIC", "accuracy")
    assert listed(tmp_path, KERAS)["Metric"] == "accuracy 0.2"


def test_named_metrics_are_columns(tmp_path: Path) -> None:
    row = listed(tmp_path, KERAS, metrics=["accuracy", "images/sec"])
    assert row["accuracy"] == "0.2"
    assert not {"Metric", "images/sec"} & set(row)


def test_a_list_of_runs_without_numbers_has_no_column_of_them(tmp_path: Path) -> None:
    assert "Metric" not in listed(tmp_path, "hello\n")


def test_only_the_logs_of_the_newest_runs_are_read(tmp_path: Path) -> None:
    read: set[str] = set()

    class Reading(ScriptedBackend):
        def read(self, file, offset=0, limit=1 << 20):
            read.add(file.job.name)
            return super().read(file, offset, limit)

    ended = resource(ExecutionState.SUCCEEDED, exit_code=0)
    count = MAX_METRICS_READ + 5
    ids = [ended.id.parent.child(Kind.JOB, f"job{number}") for number in range(count)]
    JobList([replace(ended, id=id) for id in ids], Reading(tmp_path)).to_table()
    assert read == {f"job{number}" for number in range(5, count)}


def test_only_the_end_of_a_long_log_is_read(tmp_path: Path) -> None:
    text = "".join(f"step {n}: old_loss 1.5\n" for n in range(5000)) + KERAS * 1000
    assert listed(tmp_path, text, metrics=["old_loss", "loss"]).keys() & {"old_loss", "loss"} == {"loss"}


def test_metrics_of_stderr_are_listed_where_stdout_has_none(tmp_path: Path) -> None:
    backend = ScriptedBackend(tmp_path)
    backend.write("hello\n")
    backend.write("step 1: loss 0.5\n", file="stderr.txt")
    table = JobList([resource(ExecutionState.SUCCEEDED, exit_code=0)], backend).to_table()
    assert dict(zip(table.titles, table.rows[0], strict=True))["Metric"] == "loss 0.5"


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


def test_the_json_of_a_list_is_written_job_by_job(tmp_path: Path) -> None:
    listed = Result(JobList(jobs(3), backend_with(tmp_path, "")))
    pieces = [piece for piece in listed.text_pieces("json") if '"executionState"' in piece]
    assert len(pieces) == 3
    assert "".join(listed.text_pieces("json")) == listed.to_text("json")


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
