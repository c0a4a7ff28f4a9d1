import numpy as np
import pytest

from batchai_magics.backends.base import Chunk, FileRef, Span
from batchai_magics.follow import (
    JobFailed,
    LogBytes,
    LogFault,
    MetricMismatched,
    MetricsAdded,
    NodesChanged,
    Standstill,
    StateChanged,
)
from batchai_magics.jobs.job_model import JobModel
from batchai_magics.metrics.measurement import FIT, Fact, Measurement
from batchai_magics.metrics.runs.metric_traits import MetricPreferences
from batchai_magics.models.cluster_spec import NodeStateCounts
from batchai_magics.models.error_details import ErrorDetail
from batchai_magics.models.states import ExecutionState
from batchai_magics.records.job_error import JobError
from batchai_magics.widgets.core.flow_control import OVERHEAD_BYTES
from batchai_magics.widgets.job.job_header import facts_of
from batchai_magics.widgets.job.job_view import LOG_BYTES, REPLAY_BYTES, Cursor
from tests.metrics.log_text import step_numbers
from tests.widgets.scripted_job import FAILURE, JOB, resource

BIG = 400_000


def log(model, text, file="stdout.txt"):
    end = model.tails[file].end if file in model.tails else 0
    model.take(LogBytes(FileRef(JOB, file), Chunk(text.encode(), end, end + len(text), False)))


def restart(model, text, file="stdout.txt"):
    """The log was cut and starts again with this text."""
    model.take(LogBytes(FileRef(JOB, file), Chunk(text.encode(), 0, len(text), False), restarted=True))


def points(model, *steps):
    model.take(
        MetricsAdded(
            JOB, tuple(number for step in steps for number in step_numbers(step, 0, 100.0, 2.0, jitter=3.0))
        )
    )


def test_batches_are_numbered_and_end_when_the_view_has_all():
    model, cursor = JobModel(), Cursor()
    log(model, "one\n")
    first = cursor.next_batch(model, BIG)
    log(model, "two\n")
    second = cursor.next_batch(model, BIG)
    assert [first.content["seq"], second.content["seq"]] == [1, 2]
    assert first.buffers + second.buffers == [b"one\n", b"two\n"]
    assert cursor.next_batch(model, BIG) is None


def test_numbers_of_a_line_travel_as_columns_with_their_positions_once():
    model, cursor = JobModel(), Cursor()
    points(model, 1, 10)
    batch = cursor.next_batch(model, BIG)
    parts = {part["name"]: part["is_at_same"] for part in batch.content["values"]}
    assert parts == {"images_per_sec": False, "jitter": True, "loss": True}
    steps, ranks, rates, epochs, times, jitters, losses = batch.buffers
    assert np.frombuffer(steps, "f8").tolist() == [1, 10]
    assert np.frombuffer(ranks, "i4").tolist() == [0, 0]
    assert np.isnan(np.frombuffer(epochs + times, "f4")).all()
    values = [np.frombuffer(column, "f4").tolist() for column in (rates, jitters, losses)]
    assert values == [[100, 100], [3, 3], [2, 2]]


def test_the_speed_of_tf_cnn_benchmarks_has_its_jitter_around_it_and_no_other_chart_has():
    model = JobModel()
    model.take(StateChanged(resource(ExecutionState.RUNNING)))
    points(model, 1, 10)
    charts = {chart["title"]: chart.get("band") for chart in facts_of(model)["charts"]}
    assert charts == {"loss": None, "images/sec": "jitter"}


def test_a_view_that_says_what_it_has_gets_the_rest():
    model, cursor = JobModel(), Cursor()
    points(model, 1, 10)
    log(model, "one\n")
    cursor.next_batch(model, BIG)
    points(model, 20)
    cursor.rewind({"stdout.txt": 4}, values={"images_per_sec": 3, "jitter": 2, "loss": 1})
    batch = cursor.next_batch(model, BIG)
    firsts = {part["name"]: part["first"] for part in batch.content["values"]}
    assert firsts == {"jitter": 2, "loss": 1}
    assert batch.content["logs"] == []


def test_a_view_that_has_nothing_gets_all_points_and_the_end_of_the_log():
    model, cursor = JobModel(), Cursor()
    points(model, *range(50))
    for i in range(30_000):
        log(model, f"line {i:06}\n")
    while cursor.next_batch(model, BIG):
        pass
    cursor.rewind({})
    batch = cursor.next_batch(model, BIG)
    assert len(batch.buffers[0]) == 50 * 8
    assert REPLAY_BYTES - 20 < len(batch.buffers[-1]) <= REPLAY_BYTES
    assert batch.content["logs"][0]["skipped"] + batch.buffers[-1].count(b"\n") == 30_000


def test_a_log_that_starts_again_is_sent_from_its_start_though_it_is_no_longer():
    model, cursor = JobModel(), Cursor()
    log(model, "old\n", "other.txt")
    cursor.next_batch(model, BIG)
    restart(model, "new\n", "other.txt")
    batch = cursor.next_batch(model, BIG)
    assert [(part["offset"], part["restarted"]) for part in batch.content["logs"]] == [(0, True)]
    assert batch.buffers == [b"new\n"]
    assert cursor.is_up_to_date(model)


def test_points_of_another_start_of_the_log_are_void_however_many_the_view_has():
    model, cursor = JobModel(), Cursor()
    restart(model, "")
    points(model, 1, 10)
    while cursor.next_batch(model, BIG):
        pass
    cursor.rewind({"stdout.txt": 0}, values={"images_per_sec": 2, "jitter": 2, "loss": 2}, generation=0)
    content = cursor.next_batch(model, BIG).content
    assert content["generation"] == 1
    assert [part["first"] for part in content["values"]] == [0, 0, 0]


def test_a_page_that_says_hello_is_answered_though_it_has_all():
    model, cursor = JobModel(), Cursor()
    log(model, "one\n")
    cursor.next_batch(model, BIG)
    cursor.rewind({"stdout.txt": 4})
    assert cursor.next_batch(model, BIG).buffers == []


def test_no_batch_is_longer_than_allowed_and_none_is_lost():
    model, cursor = JobModel(), Cursor()
    points(model, *range(5000))
    log(model, "x" * 79 + "\n")
    sizes, sent = [], dict.fromkeys(model.numbers.series, 0)
    while batch := cursor.next_batch(model, 20_000):
        sizes.append(batch.size_bytes)
        buffers = iter(batch.buffers)
        for part in batch.content["values"]:
            assert part["first"] == sent[part["name"]]
            columns = [next(buffers) for _ in range(1 if part["is_at_same"] else 5)]
            sent[part["name"]] += len(columns[-1]) // 4
    assert max(sizes) <= 20_000
    assert sent == {"images_per_sec": 5000, "jitter": 5000, "loss": 5000}


def test_a_flood_is_skipped_with_a_count():
    model, cursor = JobModel(), Cursor()
    log(model, "first\n")
    cursor.next_batch(model, BIG)
    log(model, "".join(f"line {i:06}\n" for i in range(20_000)))
    batch = cursor.next_batch(model, BIG)
    part = batch.content["logs"][0]
    assert len(batch.buffers[0]) <= LOG_BYTES
    assert part["skipped"] + batch.buffers[0].count(b"\n") == 20_000


def test_the_end_is_told_once_and_at_once_to_a_page_that_says_hello():
    model, cursor = JobModel(), Cursor()
    log(model, "one\n")
    cursor.next_batch(model, BIG)
    model.end()
    for _ in range(2):
        assert cursor.next_batch(model, BIG).content["complete"] is True
        assert cursor.next_batch(model, BIG) is None
        cursor.rewind({"stdout.txt": 4})


def test_the_head_says_what_failed_first():
    model = JobModel(processes=4)
    model.take(JobFailed(JOB, JobError("resnet", "KeyError: 'x'", rank=2, place="cell line 4", hints=("h",))))
    model.take(StateChanged(resource(ExecutionState.FAILED, **FAILURE)))
    facts = facts_of(model)
    assert facts["state"] == "failed"
    assert facts["failure"] == {"cause": "Rank 2, cell line 4: KeyError: 'x'", "hints": ["h"]}
    assert facts["ended"] - facts["started"] == 34_000


def test_header_shows_the_warnings_of_a_succeeded_job():
    model = JobModel(processes=2)
    errors = [ErrorDetail(code="MpiNotUsed", message="none joined")]
    model.take(StateChanged(resource(ExecutionState.SUCCEEDED, exit_code=0, errors=errors)))
    assert (facts_of(model)["errors"], facts_of(model)["warnings"]) == ([], ["none joined"])


def test_many_metrics_share_what_a_message_may_hold_and_all_arrive():
    model, cursor = JobModel(), Cursor()
    names = [f"m{number}" for number in range(1000)]
    model.take(MetricsAdded(JOB, tuple(Measurement(name, 0.5, step=1) for name in names)))
    sent = []
    while batch := cursor.next_batch(model, 4_000):
        assert batch.size_bytes <= 4_000
        sent += [part["name"] for part in batch.content["values"]]
    assert sent == names


def test_the_page_is_told_the_charts_of_each_quantity():
    model = JobModel(preferences=MetricPreferences(headline="accuracy"))
    model.take(StateChanged(resource(ExecutionState.RUNNING)))
    version = model.version
    names = ("step_time", "loss", "val_loss", "accuracy")
    model.take(MetricsAdded(JOB, tuple(Measurement(name, 0.5, step=1, rank=0) for name in names)))
    charts = facts_of(model)["charts"]
    assert [chart["title"] for chart in charts] == ["accuracy", "loss", "step_time"]
    assert [line["phase"] for line in charts[1]["lines"]] == ["train", "val"]
    assert [chart["is_default"] for chart in charts] == [True, True, False]
    assert model.version > version


def test_the_page_is_told_the_headings_of_all_folds_once_there_are_several():
    model = JobModel()
    model.take(StateChanged(resource(ExecutionState.RUNNING)))
    for fold, labels in ((1, [None]), (2, ["loss (Fold 1)", None])):
        found = (Fact(FIT, f"Fold {fold}", None), Measurement("loss", 0.5, step=1))
        model.take(MetricsAdded(JOB, found))
        (chart,) = facts_of(model)["charts"]
        assert [line.get("label") for line in chart["lines"]] == labels
    assert [line["name"] for line in chart["lines"]] == ["loss", "loss (Fold 2)"]


def test_single_new_number_is_sent_in_a_batch():
    model, cursor = JobModel(), Cursor()
    model.take(MetricsAdded(JOB, (Measurement("lr", 0.5, step=10, rank=1),)))
    cursor.next_batch(model, BIG)
    model.take(MetricsAdded(JOB, (Measurement("lr", 0.25, step=20, rank=1),)))
    assert cursor.next_batch(model, BIG).content["values"] == [
        {"name": "lr", "first": 1, "is_at_same": False}
    ]


def test_nothing_is_sent_where_nothing_fits():
    model, cursor = JobModel(), Cursor()
    points(model, 1)
    assert cursor.next_batch(model, OVERHEAD_BYTES) is None
    assert cursor.next_batch(model, BIG).content["seq"] == 1


def test_numbers_are_void_when_the_log_starts_again():
    model, cursor = JobModel(), Cursor()
    points(model, 1, 10)
    log(model, "old\n")
    cursor.next_batch(model, BIG)
    restart(model, "new\n")
    batch = cursor.next_batch(model, BIG)
    assert (batch.content["generation"], batch.content["values"]) == (1, [])
    assert (model.numbers.metrics, [*model.numbers.table]) == ([], [])
    points(model, 5)
    assert len(cursor.next_batch(model, BIG).buffers[0]) == 8


def test_node_counts_are_remembered():
    times = iter([1.0, 2.0])
    model = JobModel(clock=lambda: next(times))
    model.take(NodesChanged(JOB, NodeStateCounts(preparing_node_count=2), NodeStateCounts()))
    model.take(NodesChanged(JOB, NodeStateCounts(running_node_count=2), NodeStateCounts()))
    assert list(model.history) == [[1000, 2, 0, 0, 0, 0, 0], [2000, 0, 0, 2, 0, 0, 0]]


def test_the_logs_that_are_looked_at_most_come_first():
    model = JobModel()
    for file in ("a.log", "stderr.txt", "execution.log", "stdout.txt"):
        log(model, "x\n", file)
    assert model.files == ["stdout.txt", "stderr.txt", "execution.log", "a.log"]


def test_only_the_log_of_the_numbers_takes_them_with_it_when_it_starts_again():
    model = JobModel()
    points(model, 1, 10)
    restart(model, "new\n", "stderr.txt")
    assert (model.numbers.mean_rates, model.numbers.generation) == (2, 0)


def test_a_view_hears_that_the_writers_of_a_log_can_be_told_apart():
    model = JobModel()
    log(model, "a\n")
    before = model.version
    model.take(
        LogBytes(FileRef(JOB, "stdout.txt"), Chunk(b"b\n", 2, 4, False, (Span(2, 3, 0), Span(3, 4, 1))))
    )
    assert model.has_ranks
    assert model.version > before


def test_the_end_of_warm_up_is_known_at_the_end_at_the_latest():
    model, steps = (
        JobModel(),
        [number for step in range(30) for number in step_numbers(step, 0, 10.0 if step < 3 else 100.0, 2.0)],
    )
    model.take(MetricsAdded(JOB, tuple(steps[:100])))
    model.take(MetricsAdded(JOB, tuple(steps[100:])))
    assert model.numbers.warm_up is None
    model.end()
    assert model.numbers.warm_up == 0


def test_same_problem_is_reported_once():
    model = JobModel()
    model.report_problem("no disk")
    version = model.version
    model.report_problem("no disk")
    assert model.version == version


def test_how_far_a_job_is_travels_once_and_again_to_a_new_page():
    model, cursor = JobModel(), Cursor()
    log(model, "step 3/10\n", "stderr.txt")
    told = {"fraction": 0.3, "words": "step 3/10", "ends": None, "is_of_epoch": False}
    status = {"activity": "", "progress": told}
    assert cursor.next_batch(model, BIG).content["status"] == status
    log(model, "a line\n", "stderr.txt")
    assert "status" not in cursor.next_batch(model, BIG).content
    cursor.rewind({})
    assert cursor.next_batch(model, BIG).content["status"] == status
    restart(model, "anew\n", "stderr.txt")
    assert cursor.next_batch(model, BIG).content["status"]["progress"] is None


@pytest.mark.parametrize("steps", [(), (1, 2)])
def test_numbers_that_are_not_read_are_told_of_in_place_of_charts_or_in_the_head(steps):
    model = JobModel()
    model.take(StateChanged(resource(ExecutionState.RUNNING)))
    points(model, *steps)
    log(model, "a psnr of 1.5 was seen\na psnr of 2.5 was seen\n")
    version = model.version
    model.poll_ended()
    assert model.version > version
    facts = facts_of(model)
    assert [bool(facts["unread"]), bool(facts["metric_notices"])] == [not steps, bool(steps)]


def test_a_metric_that_is_no_number_is_told_of_in_the_head_until_the_log_begins_anew():
    model = JobModel()
    model.take(StateChanged(resource(ExecutionState.RUNNING)))
    version = model.version
    model.take(MetricMismatched(JOB, '--metric psnr matched "low"'))
    assert model.version > version
    assert facts_of(model)["metric_notices"] == ['--metric psnr matched "low"']
    log(model, "one\n")
    restart(model, "two\n")
    assert facts_of(model)["metric_notices"] == []


def test_a_standstill_is_told_of_in_the_head_until_the_job_prints_again():
    model = JobModel()
    model.take(StateChanged(resource(ExecutionState.RUNNING)))
    version = model.version
    model.take(Standstill(JOB, 0.0, 900.0, "Rank 1 is in step (train.py:7)."))
    assert model.version > version
    text = "Nothing was printed for 15 minutes. Rank 1 is in step (train.py:7)."
    assert facts_of(model)["standstill"] == text
    version = model.version
    log(model, "one\n")
    assert model.version > version
    assert facts_of(model)["standstill"] == ""


def test_a_finished_log_that_lacks_bytes_is_told_of_in_the_head():
    model = JobModel()
    model.take(StateChanged(resource(ExecutionState.FAILED)))
    model.take(LogFault(FileRef(JOB, "stdout.txt"), "4 of its 8 bytes are missing"))
    assert facts_of(model)["log_faults"] == ["stdout.txt is not complete: 4 of its 8 bytes are missing"]
