"""Records of a job that goes on: what is asked of them is the same however they are kept."""

import gc

import pytest

from batchai_magics.jobs.log_numbers import MAX_UNPACKED, RecordHistory
from batchai_magics.metrics import Fact, StepRecord
from batchai_magics.metrics.columns.record_columns import Columns

HEADER = Fact("model", "resnet50", None)


def steps(first, count):
    return tuple(StepRecord(step, 0, 1.0, 0.5, 2.0, 3.0) for step in range(first, first + count))


@pytest.mark.parametrize("loose", [1, MAX_UNPACKED])
def test_records_stay_in_the_order_in_which_they_came(loose):
    history = RecordHistory()
    parts = [(HEADER,), steps(1, loose), Columns.of([*steps(5000, 3), HEADER]), steps(6000, 2)]
    for part in parts:
        history.add(part)
    expected = [record for part in parts for record in part]
    assert (list(history), len(history)) == (expected, len(expected))
    assert HEADER in history


def test_what_was_forgotten_is_gone():
    history = RecordHistory()
    history.add(Columns.of(steps(1, 3)))
    history.add(steps(4, 3))
    history.clear()
    assert (list(history), len(history)) == ([], 0)


def test_of_a_long_log_few_records_are_objects_that_the_collector_visits():
    history = RecordHistory()
    for first in range(0, 10 * MAX_UNPACKED, 1000):
        history.add(steps(first, 1000))
    alive = sum(isinstance(each, StepRecord) for each in gc.get_objects())
    assert (len(history), alive < 2 * MAX_UNPACKED) == (10 * MAX_UNPACKED, True)
