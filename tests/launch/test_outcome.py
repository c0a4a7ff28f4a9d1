"""How a run ended, as JSON: the same form on every engine."""

from __future__ import annotations

import pytest

from batchai_magics.backends.node.outcome import failed_with
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import ProcessExit

FAILED = failed_with("JobFailed", "oh", failedRank=1)._replace(
    exit_code=3, ranks=(ProcessExit(1, "n1", 3, 12.5, 100), ProcessExit(0, "n0")), ended=13.0
)


def test_an_outcome_that_is_written_is_read_as_it_was() -> None:
    outcome = FAILED.warned("Note", "careful")
    assert Outcome.from_json(outcome.to_json()) == outcome


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", "null", FAILED.to_json()[:-9], FAILED.to_json().replace('"version": 1', '"version": 2')],
)
def test_anything_else_is_no_outcome(text: str) -> None:
    assert Outcome.from_json(text) is None


@pytest.mark.parametrize(
    "error",
    [
        '"oh"',
        '{"code": 1, "message": "oh"}',
        '{"code": "JobFailed", "message": "oh", "details": "oh"}',
        '{"code": "JobFailed", "message": "oh", "details": [{"name": "exitCode", "value": 1}]}',
    ],
)
def test_errors_that_are_none_make_no_outcome(error: str) -> None:
    text = Outcome(0).to_json()
    assert Outcome.from_json(text.replace('"errors": []', f'"errors": [{error}]')) is None


@pytest.mark.parametrize("time", ["1e300", "-1"])
def test_an_exit_at_no_time_makes_no_outcome(time: str) -> None:
    assert Outcome.from_json(FAILED.to_json().replace("12.5", time)) is None
