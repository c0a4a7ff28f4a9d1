import re
from itertools import pairwise

import pytest
from matplotlib.figure import Figure

from batchai_magics.errors import UsageError
from batchai_magics.metrics import Fact, LogMetrics, compare, figure_png, read_metrics, scaling
from batchai_magics.metrics.charts.scaling_chart import NOTHING
from tests.metrics.runs.scaling_logs import Handle, log


@pytest.fixture(scope="module")
def runs():
    return {"one": log(1, 100), "two": log(2, 90), "four": log(4, 80)}


def test_a_row_is_a_number_of_processes(runs):
    table = scaling(runs).frame()
    assert table["processes"].tolist() == [1, 2, 4]
    assert table["images_per_sec"].tolist() == [100, 180, 320]
    assert table["ideal"].tolist() == [100, 200, 400]
    assert table["speedup"].tolist() == [1.0, 1.8, 3.2]
    assert table["efficiency_percent"].tolist() == [100, 90, 80]


def test_the_ideal_starts_at_the_smallest_number_of_processes():
    table = scaling([log(8, 50), log(2, 100)]).frame()
    assert table["ideal"].tolist() == [200, 800]
    assert table["efficiency_percent"].tolist() == [100, 50]


STEPS = b"[1,%d]<stdout>:10\timages/sec: 5.0 +/- 0.0 (jitter = 0.0)\t1.000\n"


@pytest.mark.parametrize(
    ("logs", "kind", "words"),
    [
        ([log(1, 100), log(4, 80)], "weak", "weak scaling, batch of 32 per process"),
        ([log(1, 100, batch=64), log(4, 80, batch=16)], "strong", "strong scaling, batch of 64 in all"),
        ([log(1, 100, batch=64), log(4, 80, batch=8)], "mixed", ""),
        ([log(1, 100, batch=16), log(2, 100, batch=16), log(2, 100, batch=32)], "mixed", ""),  # one ran once
        ([read_metrics(STEPS % 0), read_metrics(STEPS % 0 + STEPS % 1)], "unknown", ""),
    ],
)
def test_the_batches_tell_the_kind_of_scaling(logs, kind, words):
    found = scaling(logs)
    assert ([curve.growth.value for curve in found.curves], words in str(found)) == ([kind], True)


def test_a_study_of_two_batch_sizes_is_two_curves():
    found = scaling([log(count, 100, batch=batch) for count in (1, 2) for batch in (16, 32)])
    assert [curve.label for curve in found.curves] == [
        "resnet50, batch of 16 per process",
        "resnet50, batch of 32 per process",
    ]
    assert {curve.growth.value for curve in found.curves} == {"weak"}


def test_repeated_runs_are_one_point_with_the_error_between_them():
    table = scaling([log(1, 90), log(1, 110), log(2, 100)]).frame()
    assert table["images_per_sec"].tolist() == [100, 200]
    assert table["uncertainty"].iloc[0] == pytest.approx(10)
    assert table["runs"].tolist() == ["log 1, log 2", "log 3"]
    doubt = scaling([log(1, 100), log(2, 100)]).curves[0].points[1].efficiency_uncertainty
    assert doubt == pytest.approx(100 * (2 * 0.018**2) ** 0.5)  # of both speeds


def test_one_number_of_processes_is_refused():
    with pytest.raises(UsageError, match="number of processes is 2 in all runs"):
        scaling([log(2, 10), log(2, 12)])


def test_a_log_without_a_rate_is_left_out_by_name(runs):
    found = scaling({"empty": read_metrics(b""), **runs})
    assert [point.processes for point in found.curves[0].points] == [1, 2, 4]
    assert "No images/sec: empty. Left out." in str(found)


def test_the_figure_has_speeds_the_ideal_and_the_efficiency(runs):
    speeds, efficiency = scaling(runs).plot().figure.axes
    assert (speeds.get_ylabel(), speeds.get_xlabel()) == ("images/sec", "GPUs")
    assert efficiency.get_ylabel() == "efficiency (%)"
    ideal, measured, *_ = speeds.lines
    assert (list(ideal.get_ydata()), ideal.get_linestyle()) == ([100, 200, 400], "--")
    assert list(measured.get_ydata()) == [100, 180, 320]
    assert [label.get_text() for label in speeds.get_xticklabels()] == ["1", "2", "4"]
    ax = Figure().add_subplot()
    assert scaling([log(count, 10, device="cpu") for count in (1, 2)]).plot(ax=ax) is ax
    assert (ax.get_xlabel(), len(ax.figure.axes)) == ("processes", 1)


def test_many_models_and_a_wide_range_are_drawn():
    names = [f"model{number}" for number in range(9)]
    found = scaling([log(count, 100, model=name) for count in (1, 8, 128) for name in names])
    assert figure_png(found.plot()).startswith(b"\x89PNG")
    assert found.plot().get_xscale() == "log"


def running(name, metrics):
    return Handle(name, metrics, is_done=False)


def test_study_of_a_running_job_has_the_points_so_far():
    found = scaling([running("one", log(1, 100)), running("two", read_metrics(b""))])
    assert (found.is_running, found.silent) == (True, ("two",))
    assert found.frame()["processes"].tolist() == [1]
    assert "100.0 images/sec with 1 process," in str(found)
    assert "No images/sec yet: two." in found._repr_html_()


def test_one_process_with_several_devices_counts_as_many():
    found = scaling([replicated(log(4, 80)), log(1, 100)])
    assert found.frame()["processes"].tolist() == [1, 4]


def replicated(metrics):
    """The same run as one process that drives all devices."""
    return LogMetrics(
        Fact(r.key, r.value.replace("horovod/", "/"), 0, 0) if isinstance(r, Fact) else r
        for r in metrics.records
        if not r.rank
    )


def test_before_the_first_number_there_is_a_table_and_a_sentence():
    found = scaling([running("one", read_metrics(b""))])
    assert len(found.frame()) == 0
    assert [words.get_text() for words in found.plot().texts] == [NOTHING]


def test_the_efficiencies_of_several_models_do_not_cover_each_other():
    names = [f"model{number}" for number in range(5)]
    ax = scaling([log(count, 100 - 2 * count, model=name) for count in (1, 8) for name in names]).plot()
    ax.figure.draw_without_rendering()
    boxes = sorted((text.get_window_extent() for text in ax.figure.axes[1].texts), key=lambda box: box.y0)
    assert len(boxes) == 5
    assert all(upper.y0 >= lower.y1 - 2 for lower, upper in pairwise(boxes))


def test_names_of_curves_have_what_distinguishes_them():
    found = scaling(
        [log(count, 100, batch=batch, model=model) for count in (1, 2) for batch, model in BATCHES]
    )
    (legend,) = found.plot().figure.legends
    assert legend.get_title().get_text() == "weak scaling"
    assert [text.get_text() for text in legend.get_texts()][1:] == [
        "vgg16, batch of 16 per process",
        "lenet, batch of 64 per process",
    ]


BATCHES = ((16, "vgg16"), (64, "lenet"))


def test_displayed_study_has_few_columns():
    shown = scaling([log(1, 10), log(2, 10)])._repr_html_()
    assert re.findall("<th[^>]*>([^<]*)</th>", shown)[:5] == [
        "model", "processes", "images/sec", "speed-up", "efficiency",
    ]  # fmt: skip
    assert re.findall("<br><span[^>]*>([^<]*)</span></th>", shown) == ["log 1", "log 2"]


def tokens(processes, rate):
    lines = (
        f"[1,{rank}]<stdout>:step {step}: loss 2.5, tokens_per_sec {rate}\n"
        for step in (10, 20)
        for rank in range(processes)
    )
    return read_metrics("".join(lines).encode())


@pytest.mark.parametrize("metric", ["", "tokens/sec"])
def test_scaling_study_works_for_any_rate(metric):
    found = scaling({"one": tokens(1, 100), "two": tokens(2, 180)}, metric=metric)
    assert found.frame()["tokens_per_sec"].tolist() == [100, 180]
    assert found.frame()["efficiency_percent"].tolist() == [100, 90]
    assert "1.80 times the tokens/sec" in str(found)
    assert "tokens/sec</th>" in found._repr_html_()
    assert found.plot().get_ylabel() == "tokens/sec"


class QuietJob:
    """A job of which only rank 0 prints."""

    def __init__(self, count, rate):
        self.name, self.count, self.rate = f"tokens-{count}", count, rate

    def records(self):
        text = "".join(f"step {step}: loss 2.5, tokens_per_sec {self.rate}\n" for step in (10, 20))
        return read_metrics(text.encode()).records

    def process_count(self):
        return self.count


def test_where_only_rank_0_prints_the_jobs_tell_the_number_of_processes():
    found = scaling([QuietJob(1, 100), QuietJob(2, 190), QuietJob(4, 300)])
    assert found.frame()["processes"].tolist() == [1, 2, 4]
    assert found.frame()["efficiency_percent"].tolist() == [100, 95, 75]
    assert compare([QuietJob(1, 100), QuietJob(2, 190)]).frame()["processes"].tolist() == [1, 2]


def test_all_processes_of_a_running_job_count_if_only_rank_0_prints():
    runs = [QuietJob(1, 100), QuietJob(2, 190)]
    runs[1].is_done = False
    assert scaling(runs).frame()["processes"].tolist() == [1, 2]


def test_running_job_counts_the_ranks_that_have_printed_rates():
    runs = [running("one", log(1, 100)), running("two", log(1, 90))]
    for count, run in enumerate(runs, 1):
        run.process_count = lambda count=count: count
    assert scaling(runs).frame()["processes"].tolist() == [1]


def test_a_rate_that_no_log_has_is_refused_by_its_name():
    with pytest.raises(UsageError, match="no log reports tokens/sec: one, two"):
        scaling({"one": log(1, 100), "two": log(2, 100)}, metric="tokens_per_sec")
