"""Where values stand that have no step."""

import pytest

from batchai_magics.metrics.measurement import ATTEMPT, FIT, Fact, Measurement
from batchai_magics.metrics.measurement_table import MeasurementTable
from batchai_magics.metrics.runs.fits import FitHeadings
from batchai_magics.metrics.runs.positions import Positions


def number(epoch=None, step=None, name="loss"):
    return Measurement(name, 0.5, step=step, epoch=epoch)


def numbers(*epochs):
    return [number(epoch) for epoch in epochs]


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        pytest.param(numbers(1, 2, 2, 3, 1, 2, 4), [1, 2, 3, 4, 1, 2, 5], id="epochs that go back"),
        pytest.param(numbers(3, 4, 4, 5, 9), [3, 4, 5, 6, 9], id="the counter that the program counts in"),
        pytest.param(numbers(0, 1, 2), [0, 1, 2], id="from 0"),
        pytest.param(numbers(0.02, 0.5, 1, 2.2), [1, 2, 3, 4], id="fractions"),
        pytest.param(numbers(4, 5, 1, 2, 6), [4, 5, 1, 2, 6], id="back to epochs before the first one"),
        pytest.param(numbers(1e300, float("inf")), [1, 2], id="no epochs that anybody counts to"),
        pytest.param([*numbers(1), number(1, 7), *numbers(2)], [1, 7, 2], id="steps stay"),
        pytest.param([*numbers(1, 2), number(2, name="acc")], [1, 2, 2], id="all metrics share an epoch"),
        pytest.param(
            [Fact(FIT, "Fold 1"), number(1), Fact(FIT, "Fold 2"), number(1)], [1, 1], id="another fit"
        ),
        pytest.param(numbers(1, 1, 2, 1, 1, 1, 2), [1, 2, 3, 1, 2, 3, 4], id="more values than before"),
        pytest.param(
            [*numbers(1, 2), Fact(ATTEMPT, "2"), *numbers(2, 3)], [1, 2, 2, 3], id="another attempt"
        ),
        pytest.param([number(), number(), number(name="acc")], [1, 2, 1], id="counted by metric"),
    ],
)
@pytest.mark.parametrize("is_whole", [True, False])
def test_values_without_steps_are_numbered(records, expected, is_whole):
    headings, positions = FitHeadings(), Positions()
    parts = [records] if is_whole else [[record] for record in records]
    placed = [each for part in parts for each in positions.of(headings.marked(MeasurementTable.of(part)))]
    assert [each.step for each in placed if isinstance(each, Measurement)] == expected


@pytest.mark.parametrize(
    ("records", "axis"),
    [
        (numbers(1, 2), "epoch"),
        ([number(), number()], "order"),
        ([number(), number(1)], "step"),
        ([number(1), number(1, 7)], "step"),
        ([], "step"),
    ],
    ids=["epochs place all", "nothing places any", "epochs place some", "there are steps", "no values"],
)
def test_axis_is_one_on_which_all_values_have_a_position(records, axis):
    positions = Positions()
    positions.of(MeasurementTable.of(records))
    assert positions.axis == axis


def test_many_values_without_a_position_are_numbered_line_by_line():
    metrics = [Measurement(name, float(i), offset=i) for i in range(20_000) for name in ("loss", "acc")]
    (lines,) = Positions().of(MeasurementTable.of(metrics)).lines
    assert [*lines.steps[0]] == [*lines.steps[1]] == [*range(1, 20_001)]
