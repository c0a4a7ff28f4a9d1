"""Where a run stands, by its files alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from batchai_magics.backends.node.outcome import REQUEUE, TERMINATE, failed_with
from batchai_magics.backends.slurm.node.run_files import (
    NOT_REPORTED,
    AttemptEnd,
    AttemptStart,
    RunFiles,
    SlurmSubmission,
    Stop,
)
from batchai_magics.backends.slurm.run_state import status_of, with_last_log_line
from batchai_magics.launch.outcome import Outcome, RunAttempt
from batchai_magics.models.states import ExecutionState

QUEUED, RUNNING, TERMINATING = ExecutionState.QUEUED, ExecutionState.RUNNING, ExecutionState.TERMINATING
BEGUN = AttemptStart("7", ("n1",), 2.0)


@pytest.fixture
def files(tmp_path: Path) -> RunFiles:
    files = RunFiles(tmp_path)
    files.note_submission(1, SlurmSubmission("7", 1.0))
    return files


def summary_of(files: RunFiles) -> tuple[ExecutionState, float, bool, bool]:
    """The state, since when, and whether it holds nodes, or waits for some."""
    status = status_of(files)
    return status.state, status.changed, bool(status.nodes), status.is_open and not status.nodes


def test_a_run_waits_until_it_has_begun(files: RunFiles) -> None:
    assert summary_of(files) == (QUEUED, 1.0, False, True)
    files.note_attempt_start(1, BEGUN)
    assert summary_of(files) == (RUNNING, 2.0, True, False)


def test_a_run_that_has_left_its_nodes_waits_for_others(files: RunFiles) -> None:
    files.note_attempt_start(1, BEGUN)
    files.note_attempt_end(1, 0, AttemptEnd("preempted", 3.0))
    assert summary_of(files) == (QUEUED, 3.0, False, True)


def test_a_run_that_is_to_end_is_terminating_and_one_that_is_to_begin_again_is_queued(
    files: RunFiles,
) -> None:
    files.note_attempt_start(1, BEGUN)
    files.ask_to_stop(1, Stop(REQUEUE, 3.0))
    assert summary_of(files) == (QUEUED, 3.0, True, False)
    files.ask_to_stop(1, Stop(TERMINATE, 3.5))
    assert summary_of(files) == (TERMINATING, 3.5, True, False)


def test_a_run_that_has_ended_neither_holds_nodes_nor_waits(files: RunFiles) -> None:
    files.note_attempt_start(1, BEGUN)
    files.note_end(Outcome(0, ended=9.0))
    assert summary_of(files) == (ExecutionState.SUCCEEDED, 9.0, False, False)


def test_all_beginnings_are_told_unless_there_was_but_one(files: RunFiles) -> None:
    files.note_attempt_start(1, BEGUN)
    assert status_of(files).attempts == ()
    files.note_submission(2, SlurmSubmission("8", 3.0))
    assert status_of(files).attempts == (RunAttempt(("n1",), 2.0),)
    files.note_attempt_start(2, AttemptStart("8", ("n2",), 4.0))
    first, second = status_of(files).attempts
    assert first == RunAttempt(("n1",), 2.0, 4.0, NOT_REPORTED)
    assert second == RunAttempt(("n2",), 4.0)


@pytest.mark.parametrize(
    ("log", "message"),
    [
        ("first\nno such module\n\n", "It failed. Its script said last: no such module"),
        ("\n", "It failed"),
        (None, "It failed"),
    ],
)
def test_the_last_words_of_the_script_are_told_with_an_error(
    files: RunFiles, log: str | None, message: str
) -> None:
    if log is not None:
        files.batch_log.write_text(log)
    (error,) = with_last_log_line(failed_with("JobSupervisorLost", "It failed"), files).errors
    assert error["message"] == message
    assert with_last_log_line(Outcome(0), files) == Outcome(0)
