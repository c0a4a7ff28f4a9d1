"""What the service shows of runs, deletes and records, over an engine in memory."""

from __future__ import annotations

import json
from datetime import datetime, timezone

import pytest

from batchai_magics.backends.service import resource_changes
from batchai_magics.backends.service.runner import RunStatus
from batchai_magics.errors import ConflictError
from batchai_magics.launch.outcome import Outcome
from batchai_magics.models.resource_ids import Kind
from batchai_magics.models.runs.labels import LabelChange, Labels
from batchai_magics.models.states import ExecutionState
from batchai_magics.records.record_files import LABELS
from tests.backends.service.engine import EXPERIMENT, EngineHome

JOB = EXPERIMENT.child(Kind.JOB, "j")


def test_a_run_that_ended_before_it_began_has_an_end_and_its_errors(home: EngineHome) -> None:
    assert home.job().execution is None
    errors, warnings = ({"code": "A", "message": "a"},), ({"code": "B", "message": "b"},)
    result = Outcome(None, errors, warnings=warnings, ended=30.0)
    home.engine.statuses[home.guid(JOB)] = RunStatus(ExecutionState.FAILED, 30.0, result=result)
    execution = home.service.show(JOB).execution
    assert execution.started == execution.ended == datetime.fromtimestamp(30.0, timezone.utc)
    assert [error.code for error in execution.errors] == ["A", "B"]
    home.engine.start(home.guid(JOB), "node1")
    running = home.service.show(JOB).execution
    assert (running.started, running.ended) == (datetime.fromtimestamp(20.0, timezone.utc), None)
    home.engine.end(home.guid(JOB))
    ended = home.service.show(JOB).execution
    assert (ended.started, ended.errors) == (datetime.fromtimestamp(20.0, timezone.utc), ())


def test_a_job_that_does_not_end_is_not_deleted(home: EngineHome, monkeypatch: pytest.MonkeyPatch) -> None:
    home.job()
    home.engine.ends_when_stopped = False
    clock: list[float] = [0.0]
    monkeypatch.setattr(resource_changes.time, "monotonic", lambda: sum(clock))
    monkeypatch.setattr(resource_changes.time, "sleep", clock.append)
    with pytest.raises(ConflictError, match="The job j does not end"):
        home.service.delete(JOB)
    assert sum(clock) == pytest.approx(resource_changes.END_TIMEOUT_S, abs=1)
    assert home.service.show(JOB).state is ExecutionState.QUEUED


def test_labels_of_a_run_are_among_its_record_files(home: EngineHome) -> None:
    job = home.job().id
    home.service.records.relabel(job, LabelChange(("kept",), note="it is good"))
    files = home.service.records.read(job, [LABELS])
    assert Labels.from_json(json.loads(files[LABELS])) == Labels(("kept",), "it is good")
