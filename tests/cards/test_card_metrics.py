"""The metrics on a job's card."""

from batchai_magics.jobs.job_overview import MOST_METRICS, metrics_of
from batchai_magics.metrics import read_metrics
from batchai_magics.metrics.runs.metric_traits import MetricPreferences
from tests.metrics.log_text import run


def records(text):
    return read_metrics(text.encode()).records


def test_a_card_has_every_metric_the_headlines_first():
    line = "step {}: loss 1.5, val_acc {}, lr 0.1, time 20 ms\n"
    text = line.format(1, 0.5) + line.format(2, 0.4)
    assert metrics_of(records(text))["val_acc"] == "0.4 (best 0.5 at step 1)"
    assert list(metrics_of(records(text)))[:3] == ["val_acc", "loss", "lr"]


def test_a_card_has_no_timers_where_it_has_metrics():
    assert "time" not in metrics_of(records("step 1: loss 1.5, time 20 ms\n"))


def test_the_user_chooses_the_first_metric_of_a_card():
    found = metrics_of(records("step 1: loss 1.5, acc 0.5\n"), MetricPreferences(headline="acc"))
    assert next(iter(found)) == "acc"


def test_a_card_of_tf_cnn_benchmarks_has_its_total():
    found = metrics_of(records(run(ranks=4)))
    assert (found["images/sec"], found["steps"], found["model"]) == ("400", "20", "resnet50")
    assert found["by rank"].startswith("0: 100.0, 1: 101.0")


def test_a_card_of_a_log_with_epochs_only_counts_epochs():
    found = metrics_of(records("Epoch 1: loss 0.5\nEpoch 2: loss 0.4\n"))
    assert (found.get("steps"), found["epochs"]) == (None, "2")


def test_metrics_that_a_card_has_no_room_for_are_named():
    text = "step 1: " + ", ".join(f"loss_{n} 0.5" for n in range(MOST_METRICS + 2)) + "\n"
    found = metrics_of(records(text))
    assert found["more metrics"] == f"loss_{MOST_METRICS}, loss_{MOST_METRICS + 1}"


def test_a_log_without_numbers_has_none():
    assert metrics_of(records("hello\n")) == {}
