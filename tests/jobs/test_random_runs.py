"""Random runs, with attempts, fits and ranks, have the same points in all views, and those that are right."""

from __future__ import annotations

from collections import defaultdict
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from batchai_magics.metrics.charts.run_chart import plot
from batchai_magics.metrics.measurement_table import MeasurementTable
from batchai_magics.metrics.runs.comparison import compare
from batchai_magics.metrics.runs.log_metrics import LogMetrics
from batchai_magics.metrics.runs.log_runs import without_repeated
from batchai_magics.metrics.runs.positions import MetricPoints
from batchai_magics.metrics.runs.run_metrics import RunMetrics
from batchai_magics.metrics.runs.run_summary import summarize
from tests.jobs.printed_logs import by_file, expected_lines, fed, lines_of, records_of
from tests.jobs.random_runs import ACCURACY, LOSS, Script

SEEDS = st.integers(0, 1 << 30)


def polls(prints, random):
    """The prints of each file in parts, as polls read them."""
    waiting, parts = dict(by_file(prints)), []
    while any(waiting.values()):
        file = random.choice([file for file, rest in waiting.items() if rest])
        count = random.randint(1, 9)
        parts.append((file, waiting[file][:count]))
        waiting[file] = waiting[file][count:]
    return parts


@given(SEEDS)
@example(27)  # an attempt of one epoch each
@example(50)  # two ranks, whose bars end with the next attempt
@example(57)  # an attempt that goes on within the second fit, and has a third
@example(166)  # an attempt that goes on in the first of two folds
@example(1258)  # an attempt that goes on within the first fold, and has a second
@example(380)  # of which two epochs are left that only seem to explain two rounds
@settings(deadline=None)
def test_the_points_of_a_run_are_where_its_script_was(seed):
    script = Script(seed)
    metrics = RunMetrics(records_of(script.prints))
    for name in (LOSS, ACCURACY):
        curves = metrics[name].curves("step") if name in metrics else []
        assert [curve.points for curve in curves] == [*map(pytest.approx, script.segments(name))]


@given(SEEDS)
@example(17)  # the last redraw of a bar is read with the next attempt
@settings(deadline=None)
def test_live_and_reopened_views_show_the_points_of_the_figure(seed):
    prints = Script(seed).prints
    expected = expected_lines(records_of(prints), "step")
    for parts in (by_file(prints), [(each.file, [each]) for each in prints], polls(prints, Random(seed))):
        shown = lines_of(fed(parts))
        assert shown.keys() == expected.keys()
        for name, points in expected.items():
            assert shown[name] == pytest.approx(points, abs=2e-4)


@given(SEEDS)
@settings(deadline=None)
def test_tables_exports_comparisons_and_summaries_have_the_numbers_of_the_run_alone(seed):
    script = Script(seed)
    records = records_of(script.prints)
    log = LogMetrics(records)
    values = sorted(number.value for number in script.numbers)
    wide = log.frame()
    cells = wide[[name for name in (LOSS, ACCURACY) if name in wide]].stack().dropna()
    assert values == sorted(log.frame(tidy=True)["value"]) == sorted(cells)
    points = [*MetricPoints(0.0).of(without_repeated(records))]
    assert values == sorted(point.value for point in points)
    steps = defaultdict(list)
    for point in points:
        steps[point.name, point.rank].append(point.step)
    assert all(series == sorted({*series}) for series in steps.values())
    compared = compare([LogMetrics(MeasurementTable.of(records))] * 2)
    for name, metric in RunMetrics(records).items():
        expected = [*map(pytest.approx, script.segments(name))]
        drawn = [dict(line.get_xydata().tolist()) for line in compared.plot(metrics=name).lines]
        assert drawn == 2 * expected
        figure = plot(records, metrics=name, x="step" if metric.axis == "step" else "")
        lines = [dict(line.get_xydata().tolist()) for line in figure.lines if line.get_linewidth() == 2]
        assert lines == expected
        assert summarize(records).metric(name).last == pytest.approx(
            [*script.segments(name)[-1].values()][-1]
        )
