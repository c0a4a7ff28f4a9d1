"""A job may start its program several times: no view loses the numbers of a run that no attempt repeats."""

from __future__ import annotations

import pytest

from batchai_magics.metrics.runs.comparison import compare
from batchai_magics.metrics.runs.log_metrics import LogMetrics
from batchai_magics.metrics.runs.run_metrics import RunMetrics
from batchai_magics.metrics.runs.run_summary import summarize
from tests.jobs.printed_logs import OUT, Print, by_file, expected_lines, fed, lines_of, records_of

HEADER = ["TensorFlow:  1.10\n", "Model:       resnet50\n"]
EVALUATION = ["10\t50.0 examples/sec\n", "Accuracy @ 1 = 0.7300 Accuracy @ 5 = 0.9100 [50000 examples]\n"]
ATTEMPT = ["[batchai] attempt 2 begins on node-1 (node failure)\n"]


def training(loss, *steps, rate=9):
    lines = [f"{step}\timages/sec: {rate}.0 +/- 0.5 (jitter = 1.0)\t{loss}.{step:03}\n" for step in steps]
    return [*HEADER, *lines, f"total images/sec: {rate}.00\n"]


def losses(first, last, value=0):
    return [f"step {step}: loss={value}.{step:03}\n" for step in range(first, last)]


def evaluations(*steps):
    return [f"Test: [{step}/9] val_acc: 0.{step}\n" for step in steps]


def printed(lines):
    return [Print(OUT, 1_700_000_000.0 + place, text) for place, text in enumerate(lines)]


LOGS = {
    "training, then evaluation": [*training(2, 1, 10, 20), *HEADER, *EVALUATION],
    "training twice": [*training(2, 1, 10, 20), *training(1, 1, 10, 20)],
    "training twice, longer": [*training(2, 1, 10), *training(1, 20, 30)],
    "training twice by several processes": [
        *HEADER,
        *(2 * training(2, 1, 10)[2:3]),
        *(2 * training(2, 1, 10)[3:]),
        *HEADER,
        *(2 * training(1, 1, 10)[2:3]),
        *(2 * training(1, 1, 10)[3:]),
    ],
    "all runs again": [
        *training(2, 1, 10, 20),
        *HEADER,
        *EVALUATION,
        *ATTEMPT,
        *training(1, 1, 10),
        *HEADER,
        *EVALUATION,
    ],
    "the second run again": [*training(2, 1, 10, 20), *HEADER, *ATTEMPT, *HEADER, *EVALUATION],
    "an attempt that evaluates": [*losses(1, 6), *evaluations(1, 2), *ATTEMPT, *evaluations(1, 2, 3)],
    "an attempt that evaluates before it trains": [
        *losses(1, 6),
        *evaluations(1),
        *ATTEMPT,
        *evaluations(1),
        *losses(1, 3, 1),
    ],
}


@pytest.mark.parametrize("name", [name for name in LOGS if "processes" not in name])
def test_live_and_reopened_views_show_the_points_of_the_figure(name):
    prints = printed(LOGS[name])
    for count in range(1, len(prints) + 1):
        expected = expected_lines(records_of(prints[:count]), "step")
        for parts in (by_file(prints[:count]), [(each.file, [each]) for each in prints[:count]]):
            shown = lines_of(fed(parts))
            shown.pop("jitter", None), shown.pop("jitter (2)", None)
            assert shown == {line: pytest.approx(points, abs=2e-4) for line, points in expected.items()}


def curves_of(lines, name="loss"):
    return [curve.points for curve in RunMetrics(records_of(printed(lines)))[name].curves()]


@pytest.mark.parametrize("end", [[], HEADER[:1], HEADER, [*HEADER, *EVALUATION[:1]]])
def test_the_curve_of_a_training_stays_when_its_program_is_started_again(end):
    lines = [*training(2, 1, 10, 20), *end]
    assert curves_of(lines) == [{1: 2.001, 10: 2.01, 20: 2.02}]
    assert lines_of(fed([(OUT, [each]) for each in printed(lines)]))["loss"] == curves_of(lines)[0]


@pytest.mark.parametrize(
    ("name", "segments"),
    [
        ("training, then evaluation", [{1: 2.001, 10: 2.01, 20: 2.02}]),
        ("training twice", [{1: 2.001, 10: 2.01, 20: 2.02}, {1: 1.001, 10: 1.01, 20: 1.02}]),
        ("training twice, longer", [{1: 2.001, 10: 2.01, 20: 1.02, 30: 1.03}]),
        ("training twice by several processes", [{1: 2.001, 10: 2.01}, {1: 1.001, 10: 1.01}]),
        ("all runs again", [{1: 1.001, 10: 1.01}]),
        ("the second run again", [{1: 2.001, 10: 2.01, 20: 2.02}]),
        ("an attempt that evaluates", [{1: 0.001, 2: 0.002, 3: 0.003, 4: 0.004, 5: 0.005}]),
        ("an attempt that evaluates before it trains", [{1: 1.001, 2: 1.002}]),
    ],
)
def test_only_what_an_attempt_repeats_is_left_out(name, segments):
    assert curves_of(LOGS[name]) == segments
    table = LogMetrics(records_of(printed(LOGS[name]))).frame(tidy=True)
    assert {*table[table["metric"] == "loss"]["value"]} == {
        value for each in segments for value in each.values()
    }


def test_each_run_adds_up_the_rates_of_its_processes():
    assert curves_of(LOGS["training twice by several processes"], "images_per_sec") == 2 * [{1: 18, 10: 18}]


def test_speeds_are_those_of_the_last_training():
    lines = [*training(2, 1, 10), *training(1, 1, 10, rate=8), *HEADER, *EVALUATION]
    summary = summarize(records_of(printed(lines)))
    assert (summary.steady.images_per_sec, summary.total_images_per_sec) == (8, 8)
    assert (summary.metric("eval_top_1").last, summary.metric("loss").last) == (0.73, 1.01)


def test_a_comparison_has_the_rates_of_all_runs():
    records = records_of(printed(LOGS["training twice"]))
    drawn = compare([LogMetrics(records)]).plot(metrics="images_per_sec").lines
    assert [line.get_xdata().tolist() for line in drawn] == 2 * [[1, 10, 20]]
