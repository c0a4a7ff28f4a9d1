"""Records of a job that goes on: what is asked of them is the same however they are kept."""

import gc

import pytest

from batchai_magics.jobs.log_numbers import RecordHistory
from batchai_magics.metrics import Fact, Measurement
from batchai_magics.metrics.measurement_table import MeasurementTable
from tests.metrics.log_text import step_numbers

HEADER = Fact("model", "resnet50", None)


def steps(first, count):
    return tuple(number for step in range(first, first + count) for number in step_numbers(step, 0))


def measurements_alive():
    return sum(isinstance(each, Measurement) for each in gc.get_objects())


@pytest.mark.parametrize("loose", [1, 9000])
def test_records_stay_in_the_order_in_which_they_came(loose):
    history = RecordHistory()
    parts = [(HEADER,), steps(1, loose), MeasurementTable.of([*steps(5000, 3), HEADER]), steps(6000, 2)]
    for part in parts:
        history.add(part)
    expected = [record for part in parts for record in part]
    assert (list(history.table), len(history)) == (expected, len(expected))


def test_what_was_forgotten_is_gone():
    history = RecordHistory()
    history.add(MeasurementTable.of(steps(1, 3)))
    history.add(steps(4, 3))
    history.clear()
    assert (list(history.table), len(history)) == ([], 0)


def test_no_record_stays_an_object_that_the_collector_visits():
    history, before = RecordHistory(), measurements_alive()
    for first in range(0, 5000, 1000):
        history.add(steps(first, 1000))
    assert (len(history), measurements_alive() - before) == (20_000, 0)


def test_a_table_that_was_asked_for_does_not_grow():
    history = RecordHistory()
    history.add(steps(1, 3))
    table = history.table
    records = list(table)
    history.add(steps(4, 3))
    assert list(table) == records
    assert len(history.table) == 2 * len(records)
