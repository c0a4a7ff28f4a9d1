"""A run has one timeline: every view, figure, summary, table and export of it shows the same points."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from batchai_magics.jobs.log_numbers import NO_RANK
from batchai_magics.metrics.charts.comparison_chart import overlay
from batchai_magics.metrics.charts.run_chart import plot
from batchai_magics.metrics.measurement_table import MeasurementTable
from batchai_magics.metrics.runs.comparison import compare
from batchai_magics.metrics.runs.log_metrics import LogMetrics
from batchai_magics.metrics.runs.number_frames import tidy
from batchai_magics.metrics.runs.positions import MetricPoints
from batchai_magics.metrics.runs.run_metrics import RunMetrics
from batchai_magics.metrics.runs.run_summary import summarize
from batchai_magics.widgets.comparison.comparison_view import MAX_POINTS, line_columns
from tests.jobs.printed_logs import (
    ERR,
    OUT,
    Print,
    by_file,
    expected_lines,
    fed,
    lines_of,
    records_of,
)
from tests.metrics.log_text import segments_of

LENGTH = 5


def bar(epoch_at, values):
    """A bar on stderr that shows the loss from step 1 on; its last redraws may be missing."""
    return [
        Print(
            ERR,
            epoch_at + 0.1 * step,
            f"\r{20 * step:3}%|##  | {step}/{LENGTH} [00:01<00:01, 9.0it/s, loss={v}]",
        )
        for step, v in enumerate(values, 1)
    ]


def tqdm_bars():
    """Bars of one stream whose last redraws are missing: each ends at another step."""
    bars = [
        Print(ERR, 1_700_000_000.0 + 50 * epoch + step, f"\rEpoch {epoch}: {step}%|# | {text}]")
        for epoch, last in ((1, 37), (2, 36), (3, 40))
        for step in range(last)
        for text in [f"{step}/40 [00:01<00:01, 9.0it/s, loss={9 - epoch - step / 100}"]
    ]
    return [*bars, Print(ERR, 1_700_000_200.0, "\n")]


def keras_bars():
    return [
        Print(OUT, 1_700_000_000.0 + 50 * epoch + step, text)
        for epoch in (1, 2, 3)
        for step in (0, 18, 37)
        for text in [
            f"{step}/40 [====>....] - ETA: 2s - loss: {9 - epoch - step / 100}\n"
            if step
            else f"Epoch {epoch}/3\n"
        ]
    ]


def lines_in_epochs(form, epochs=(0, 1, 2), steps=(0, 12, 24, 36)):
    return [
        Print(
            OUT,
            1_700_000_000.0 + 50 * epoch + step,
            form.format(epoch=epoch, step=step, loss=9 - epoch - step / 100),
        )
        for epoch in epochs
        for step in steps
    ]


def validated_epochs():
    """Steps of the whole run, and a line of each epoch that has none."""
    prints = []
    for epoch in (1, 2, 3):
        steps = (100 * epoch - 50, 100 * epoch)
        prints += lines_in_epochs("Epoch {epoch} step {step} loss {loss}\n", (epoch,), steps)
        prints.append(Print(OUT, prints[-1].time + 1, f"Epoch {epoch} val_acc: 0.{epoch}\n"))
    return prints


def losses(first):
    return [round(first - 0.01 * step, 2) for step in range(1, LENGTH + 1)]


def epochs_with_bars(*fits, heading="", drawn=LENGTH):
    """Epochs with a bar each on stderr, and a line at their end on stdout."""
    prints, at = [], 1_700_000_000.0
    for number, count in enumerate(fits):
        if heading:
            prints.append(Print(OUT, at, f"{heading} {number + 1}\n"))
        for epoch in range(1, count + 1):
            prints += bar(at, losses(10 * number + 9 - epoch)[:drawn])
            prints.append(Print(OUT, at + 0.6, f"Epoch {epoch}: val_acc={number + epoch / 10}\n"))
            at += 1
        prints.append(Print(ERR, at - 0.3, "\n"))
    return prints


def epochs_alone(*fits):
    return [
        Print(OUT, 1_700_000_000.0 + 10 * number + epoch, f"Epoch {epoch}: loss={value}\n")
        for number, values in enumerate(fits)
        for epoch, value in enumerate(values, 1)
    ]


def several_in_epochs():
    texts = ["Epoch 1: loss=0.9", "Epoch 1: loss=0.8", "Epoch 2: loss=0.6", "Epoch 2: loss=0.7"]
    return [Print(OUT, 1_700_000_000.0 + place, f"{text}\n") for place, text in enumerate(texts)]


def folds_of_one_epoch():
    text = "Fold 1\nEpoch 1: loss=0.95\nFold 2\nEpoch 1: loss=0.51\nFold 3\nEpoch 1: loss=0.42\n"
    return [Print(OUT, 1_700_000_000.0 + i, line) for i, line in enumerate(text.splitlines(keepends=True))]


def nested_fits():
    lines = []
    for seed in (0, 1):
        lines.append(f"seed = {seed}\n")
        for fold in (1, 2):
            lines += [f"===== FOLD {fold}/2 =====\n", f"step 10: loss={seed + fold / 10}\n"]
    lines += ["Refitting on all data\n", "step 10: loss=0.05\n", "step 20: loss=0.04\n"]
    return [Print(OUT, 1_700_000_000.0 + i, line) for i, line in enumerate(lines)]


def resumed(form="step {}: loss=0.{}\n"):
    lines = [Print(OUT, 1_700_000_000.0 + step, form.format(step, 9 - step)) for step in (1, 2, 3)]
    begin = Print(OUT, 1_700_000_010.0, "[batchai] attempt 2 begins on node-1 (node failure)\n")
    again = [Print(OUT, 1_700_000_010.0 + step, form.format(step, f"{8 - step}1")) for step in (3, 4)]
    return [*lines, begin, *again]


SCRIPTS = {
    "bars on stderr, epochs on stdout": epochs_with_bars(6),
    "refit of epochs": epochs_alone([0.95, 0.73, 0.6], [0.51, 0.34]),
    "epochs above the first step": [
        Print(OUT, 1_700_000_000.0 + place, f"{position}: {value}\n")
        for place, (position, value) in enumerate(
            [("Epoch 1", "val_acc=0.1"), ("Epoch 2", "val_acc=0.2 loss=0.9"), ("step 28", "loss=0.8")]
        )
    ],
    "values with an epoch and without": [
        Print(OUT, 1_700_000_000.0 + place, text)
        for place, text in enumerate(["accuracy: 0.5\n", "Epoch 1: loss=0.9\n", "Epoch 2: loss=0.8\n"])
    ],
    "several values in an epoch": several_in_epochs(),
    "epochs without steps, some with a test": [
        Print(OUT, 1_700_000_000.0 + epoch, f"Epoch {epoch}: loss=0.{epoch}{' val_acc=0.9' * (epoch % 2)}\n")
        for epoch in (2, 3, 4, 5)
    ],
    "folds with bars": epochs_with_bars(3, 3, heading="Fold"),
    "folds of one epoch": folds_of_one_epoch(),
    "fits below one heading": [
        Print(OUT, 1_700_000_000.0 + place, text)
        for place, text in enumerate(
            ["Fold 1\n", "Epoch 1: loss=0.9\n", "Epoch 2: loss=0.8\n", "Epoch 1: loss=0.7\n"]
        )
    ],
    "folds of one epoch with bars": epochs_with_bars(1, 1, heading="Fold"),
    "seeds with folds, and a refit": nested_fits(),
    "resumed": resumed(),
    "resumed in an epoch": resumed("Epoch {}: loss=0.{}\n"),
    "steps of the run with validations": validated_epochs(),
    "bars on stderr without their ends": epochs_with_bars(3, drawn=4),
    "tqdm": tqdm_bars(),
    "Keras": keras_bars(),
    "Lightning": lines_in_epochs(
        "\rEpoch {epoch}: 9%|# | {step}/40 [00:01<00:01, 9.0it/s, v_num=0, loss={loss}]\n"
    ),
    "PyTorch's ImageNet": lines_in_epochs(
        "Epoch: [{epoch}][ {step}/40]\tTime  0.312 ( 0.411)\tLoss {loss:.4e} (5.0000e+00)\n"
    ),
    "timm": lines_in_epochs("Train: {epoch} [{step:4d}/40 ( 12%)]  Loss: {loss:.3f} (5.0)\n"),
}


@pytest.fixture(params=SCRIPTS)
def prints(request):
    return SCRIPTS[request.param]


def test_live_and_reopened_views_and_all_that_reads_the_run_show_the_same_points(prints):
    live = fed([(each.file, [each]) for each in prints])
    reopened = fed(by_file(prints))
    records = records_of(prints)
    assert lines_of(live) == lines_of(reopened) == expected_lines(records, "step")
    assert list(live.numbers.table) == list(reopened.numbers.table) == records
    assert live.numbers.axis == reopened.numbers.axis == RunMetrics(records).axis


@given(st.lists(st.tuples(st.sampled_from([OUT, ERR]), st.integers(1, 7)), max_size=12))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_however_the_logs_are_read_the_points_are_the_same(prints, reads):
    """Each poll reads some of one log; the last ones read the rest."""
    waiting = dict(by_file(prints))
    parts = []
    for file, count in [*reads, (OUT, len(prints)), (ERR, len(prints))]:
        if waiting[file]:
            parts.append((file, waiting[file][:count]))
            waiting[file] = waiting[file][count:]
    assert lines_of(fed(parts)) == expected_lines(records_of(prints), "step")


def test_figure_summary_table_and_export_have_the_points_of_the_page(prints):
    records = records_of(prints)
    metrics = RunMetrics(records)
    for name, metric in metrics.items():
        drawn = [dict(line.get_xydata().tolist()) for line in plot(records, metrics=name).lines]
        assert [line for line in drawn if line][: len(segments_of(metric))] == segments_of(metric)
        compared = compare([LogMetrics(MeasurementTable.of(records))] * 2)
        in_figure = [dict(line.get_xydata().tolist()) for line in compared.plot(metrics=name).lines]
        on_page = line_columns(overlay(compared.runs[0]), [name], MAX_POINTS)["metrics"][name]
        assert in_figure == 2 * segments_of(metric, "step")
        assert [dict(zip(*each[1:3], strict=True)) for each in on_page] == segments_of(metric, "step")
        last = [*segments_of(metric)[-1].items()][-1]
        assert summarize(records).metric(name).last == metric.summary.last == last[1]
        assert metric.summary.last_step == last[0]
        points = [point for point in MetricPoints(0.0).of(records) if point.name == name]
        assert [p.step for p in points] == sorted(p.step for p in points)
        if len(segments_of(metric)) == 1:
            assert {p.step: p.value for p in points} == segments_of(metric, "step")[0]


@given(st.lists(st.sampled_from([1, 10, 20]), min_size=1, max_size=9), st.integers(1, 4))
@settings(max_examples=60, deadline=None)
@example([1, 10, 1, 20, 10, 20], 2)
def test_processes_whose_lines_have_no_rank_are_told_apart_in_views_as_in_figures(steps, size):
    """The lines of tf_cnn_benchmarks in any order, some of them a poll."""
    form = "{}\timages/sec: {}.5 +/- 0.1 (jitter = 0.2)\t{}.250\n"
    prints = [Print(OUT, 1_700_000_000.0 + i, form.format(step, 100 + i, i)) for i, step in enumerate(steps)]
    live = fed([(OUT, prints[at : at + size]) for at in range(0, len(prints), size)])
    metrics = RunMetrics(records_of(prints)).values()
    curves = [
        (f"{metric.name} ({curve.name})" if curve.name else metric.name, rank, curve.points)
        for metric in metrics
        for rank, columns in metric.ranks.items()
        for curve in columns.curves("step")
    ]
    drawn = {name: {} for name, *_ in curves}
    for name, rank, points in curves:
        drawn[name][NO_RANK if rank is None else rank] = points
    shown = {
        name: points_by_rank(series) for name, series in live.numbers.series.items() if not series.is_band
    }
    assert shown == drawn != {}


def points_by_rank(series):
    steps, ranks, values, *_ = series.columns(0, len(series))
    found = {}
    for step, rank, value in zip(
        np.frombuffer(steps, np.float64),
        np.frombuffer(ranks, np.int32),
        np.frombuffer(values, np.float32),
        strict=True,
    ):
        found.setdefault(int(rank), {})[float(step)] = round(float(value), 4)
    return found


def test_folds_of_compared_runs_are_drawn_at_their_own_positions():
    """Each fold has the same steps, at other times; the second has shorter epochs."""
    prints = []
    for fold, length in enumerate((2, 1, 2)):
        texts = [f"Epoch {i // length + 1} step {10 * i + 10}: loss=0.{fold}{i}\n" for i in range(4)]
        texts[0] = f"Fold {fold + 1}\n{texts[0]}"
        prints += [Print(OUT, 60.0 * fold + i, text) for i, text in enumerate(texts)]
    records = records_of(prints)
    compared = compare([LogMetrics(MeasurementTable.of(records))] * 2)
    expected = {
        "time": [[60.0 * fold + i for i in range(4)] for fold in range(3)],
        "epoch": [[1, 1, 2, 2], [1, 2, 3, 4], [1, 1, 2, 2]],
    }
    for over, places in expected.items():
        drawn = [line.get_xdata().tolist() for line in compared.plot(over=over, metrics="loss").lines]
        assert drawn == 2 * places
        segments = line_columns(overlay(compared.runs[0]), ["loss"], MAX_POINTS)["metrics"]["loss"]
        assert [told[over][1] for *_, told in segments] == places


def resumed_epochs():
    """A counter that starts again with each epoch; the second attempt goes on in the second epoch."""
    form = "epoch {epoch} step {step}/40 loss {loss}\n"
    begin = Print(OUT, 1_700_001_000.0, "[batchai] attempt 2 begins on node-1 (node failure)\n")
    again = lines_in_epochs(form, (1, 2), (12, 24))
    later = [Print(OUT, each.time + 2000, each.text) for each in again]
    return [*lines_in_epochs(form, (0, 1), (12, 24)), begin, *later]


@pytest.mark.parametrize(
    "prints", [resumed(), resumed("Epoch {}: loss=0.{}\n"), resumed_epochs()], ids=["steps", "epochs", "both"]
)
def test_the_page_marks_a_later_attempt_where_the_figure_does(prints):
    live, run = fed([(each.file, [each]) for each in prints]), RunMetrics(records_of(prints))
    (drawn,) = (line.get_xdata()[0] for line in plot(run.table).lines if line.get_label() == "_attempt")
    steps, _, _, epochs, _ = live.numbers.series["loss"].columns(0, 99)
    places = {
        "step": np.frombuffer(steps, np.float64),
        "epoch": np.frombuffer(epochs, np.float32),
    }[live.numbers.axis]
    index = [*np.frombuffer(steps, np.float64)].index(live.numbers.attempts[2])
    assert places[index] == drawn


def test_a_counter_that_starts_again_with_each_epoch_is_continued():
    records = records_of(SCRIPTS["bars on stderr, epochs on stdout"])
    (loss,), (accuracy,) = (segments_of(RunMetrics(records)[name]) for name in ("loss", "val_acc"))
    assert list(loss) == list(range(1, 6 * LENGTH + 1))
    assert list(accuracy) == [LENGTH * epoch for epoch in range(1, 7)]
    table = tidy(records)
    assert table[table["metric"] == "loss"]["step"].tolist() == list(loss)
    exported = [point.step for point in MetricPoints(0.0).of(records) if point.name == "loss"]
    assert exported == list(loss)


@pytest.mark.parametrize(
    ("script", "steps"),
    [
        (
            "bars on stderr without their ends",
            [5 * epoch + step for epoch in range(3) for step in range(1, 5)],
        ),
        ("tqdm", [*range(37), *range(40, 76), *range(80, 120)]),
        ("Keras", [18, 37, 58, 77, 98, 117]),
        ("Lightning", [0, 12, 24, 36, 40, 52, 64, 76, 80, 92, 104, 116]),
        ("PyTorch's ImageNet", [0, 12, 24, 36, 40, 52, 64, 76, 80, 92, 104, 116]),
        ("timm", [0, 12, 24, 36, 40, 52, 64, 76, 80, 92, 104, 116]),
    ],
)
def test_an_epoch_is_as_long_as_the_total_beside_its_steps(script, steps):
    records = records_of(SCRIPTS[script])
    (loss,) = segments_of(RunMetrics(records)["loss"])
    assert list(loss) == steps
    exported = [point.step for point in MetricPoints(0.0).of(records) if point.name == "loss"]
    assert exported == steps


def test_totals_of_validation_are_no_length_of_an_epoch_of_training():
    lines = [
        print_
        for epoch in range(3)
        for print_ in (
            *lines_in_epochs("epoch {epoch} step {step} loss {loss}\n", (epoch,), (12, 24)),
            *lines_in_epochs("Epoch {epoch} Test: [{step}/90] Loss {loss}\n", (epoch,), (30,)),
        )
    ]
    loss = RunMetrics(records_of(lines))["loss"]
    assert [list(segment) for segment in segments_of(loss)] == [[12, 24, 36, 48, 60, 72]]


def test_an_attempt_that_goes_on_has_the_length_that_was_told_before():
    first = lines_in_epochs("epoch {epoch} step {step}/40 loss {loss}\n", (0, 1), (12, 24))
    begin = Print(OUT, 1_700_001_000.0, "[batchai] attempt 2 begins on node-1 (node failure)\n")
    again = lines_in_epochs("epoch {epoch} step {step}/40 loss {loss}\n", (0, 1), (12, 24))
    later = [Print(OUT, each.time + 2000, each.text) for each in again]
    (loss,) = segments_of(RunMetrics(records_of([*first, begin, *later]))["loss"])
    assert list(loss) == [12, 24, 52, 64]


def test_all_values_of_an_epoch_are_in_figures_summaries_and_exports_as_on_the_page():
    records = records_of(several_in_epochs())
    values = [0.9, 0.8, 0.6, 0.7]
    metric = RunMetrics(records)["loss"]
    (drawn,) = (line.get_xydata().tolist() for line in plot(records, metrics="loss").lines)
    assert drawn == [[1, 0.9], [1, 0.8], [2, 0.6], [2, 0.7]]
    assert [*lines_of(fed([(OUT, several_in_epochs())]))["loss"].values()] == values
    assert [point.value for point in MetricPoints(0.0).of(records)] == values
    assert (metric.summary.count, metric.summary.text) == (4, "0.7 (best 0.6 at epoch 2)")


def test_values_of_an_epoch_are_averaged_over_ranks_one_by_one():
    lines = [(0, 1, 0.5), (1, 1, 0.7), (0, 1, 0.4), (1, 1, 0.6), (0, 2, 0.3), (1, 2, 0.5), (1, 2, 0.1)]
    texts = [f"[1,{rank}]<stdout>:Epoch {epoch}: loss={loss}\n" for rank, epoch, loss in lines]
    prints = [Print(OUT, 1_700_000_000.0 + place, text) for place, text in enumerate(texts)]
    (curve,) = RunMetrics(records_of(prints))["loss"].curves()
    assert [*zip(curve.positions, curve.values, strict=True)] == [
        (1, pytest.approx(0.6)),
        (1, pytest.approx(0.5)),
        (2, pytest.approx(0.4)),
        (2, 0.1),
    ]


def test_folds_are_segments_and_their_exported_steps_go_on():
    records = records_of(SCRIPTS["folds with bars"])
    first, second = segments_of(RunMetrics(records)["loss"])
    assert list(first) == list(second) == list(range(1, 3 * LENGTH + 1))
    exported = [point.step for point in MetricPoints(0.0).of(records) if point.name == "loss"]
    assert exported == list(range(1, 6 * LENGTH + 1))


def test_bars_of_folds_of_one_epoch_each_begin_at_the_first_step():
    loss = RunMetrics(records_of(SCRIPTS["folds of one epoch with bars"]))["loss"]
    assert [[*segment] for segment in segments_of(loss)] == 2 * [[*range(1, LENGTH + 1)]]


def names_of(prints):
    return [curve.name for curve in RunMetrics(records_of(prints))["loss"].curves()]


def test_folds_of_one_epoch_are_segments_named_by_their_headings():
    curves = RunMetrics(records_of(folds_of_one_epoch()))["loss"].curves()
    assert {curve.name: curve.points for curve in curves} == {
        "Fold 1": {1: 0.95},
        "Fold 2": {1: 0.51},
        "Fold 3": {1: 0.42},
    }
    exported = [point.step for point in MetricPoints(0.0).of(records_of(nested_fits()))]
    assert exported == sorted({*exported})


def test_the_name_of_a_segment_has_its_outer_headings():
    folds = [f"Seed {seed}, Fold {fold}" for seed in (0, 1) for fold in (1, 2)]
    assert names_of(nested_fits()) == [*folds, "Refit on all data"]
    assert [*lines_of(fed(by_file(nested_fits())))][-1] == "loss (Refit on all data)"


def test_a_figure_names_each_fold():
    drawn = plot(records_of(folds_of_one_epoch()), metrics="loss")
    assert drawn.get_legend_handles_labels()[1] == ["Fold 1", "Fold 2", "Fold 3"]


def test_a_heading_of_a_fit_above_further_epochs_begins_no_segment():
    lines = ["Run 1\n", "Epoch 1: loss=0.9\n", "Run 2\n", "Epoch 2: loss=0.8\n", "Epoch 2: loss=0.7\n"]
    prints = [Print(OUT, float(i), line) for i, line in enumerate(lines)]
    (curve,) = RunMetrics(records_of(prints))["loss"].curves()
    assert (curve.positions, [*curve.values]) == ([1, 2, 2], [0.9, 0.8, 0.7])


def test_after_a_resume_the_later_value_holds():
    assert segments_of(RunMetrics(records_of(resumed()))["loss"]) == [{1: 0.8, 2: 0.7, 3: 0.51, 4: 0.41}]
