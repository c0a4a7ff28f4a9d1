import json

import pytest

from batchai_magics.metrics import read_metrics
from batchai_magics.metrics.runs.metric_traits import Direction, MetricPreferences
from batchai_magics.metrics.runs.run_metrics import RunMetrics
from tests.metrics.log_text import run, segments_of


def metrics_of(text, preferences=None, **patterns):
    records = read_metrics(text.encode(), patterns=patterns).records
    return RunMetrics(records, preferences) if preferences else RunMetrics(records)


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_a_metric_has_unit_direction_phase_and_points():
    found = metrics_of("step 1: loss 0.5 time 210 ms\nstep 2: loss 0.25 time 200 ms\n")
    loss = found["loss"]
    assert (loss.direction, loss.traits.phase) == (Direction.FALLS, "train")
    assert ([*loss.ranks], segments_of(loss)) == ([None], [{1: 0.5, 2: 0.25}])
    assert found["time"].unit == "ms"


def test_images_per_second_is_a_metric_with_its_total():
    found = metrics_of(run(ranks=4))
    rate = found["images_per_sec"]
    assert (rate.label, rate.unit, rate.total) == ("images/sec", "images/sec", 400)
    assert len(rate.ranks) == 4
    assert rate.last_segment()[20] == pytest.approx(100 + 101 + 102 + 103)


def test_values_without_a_position_are_in_order_and_have_no_step():
    accuracy = metrics_of("loading\nAccuracy: 0.93\nAccuracy: 0.95\nAccuracy: 0.94\n")["accuracy"]
    assert (accuracy.axis, accuracy.last_segment()) == ("order", {1: 0.93, 2: 0.95, 3: 0.94})
    assert not {"last_step", "best_step"} & accuracy.summary.to_dict().keys()
    assert accuracy.summary.text == "0.94 (best 0.95)"


def test_a_sum_needs_every_rank():
    rows = [{"step": s, "rank": r, "images_per_sec": 10} for s, r in ((1, 0), (1, 1), (2, 0))]
    assert metrics_of(lines(*rows))["images_per_sec"].last_segment() == {1: 20}


def test_a_log_with_epochs_only_is_drawn_over_epochs():
    found = metrics_of(lines(*({"epoch": epoch, "val_loss": 1 / epoch} for epoch in (1, 2))))
    assert found.axis == "epoch"
    assert list(found["val_loss"].last_segment()) == [1, 2]


def test_epoch_line_before_the_first_step_does_not_count_as_a_step():
    assert metrics_of(lines({"epoch": 0, "loss": 3.0}, {"step": 5, "loss": 2.0})).last_step == 5


def test_points_are_placed_by_epoch_and_by_time():
    rows = [{"epoch": 2 * s, "step": s, "time": 1763805600 + s, "loss": 1.0} for s in (1, 2)]
    found = metrics_of(lines(*rows))
    assert list(found["loss"].curves("epoch")[-1].positions) == [2, 4]
    assert list(found["loss"].curves("time", start=found.start)[-1].positions) == [0, 1]


def test_summary_has_the_last_and_the_best_value_with_its_step():
    text = lines(*({"step": s, "val_loss": v, "acc": v} for s, v in ((1, 3.0), (2, 1.0), (3, 2.0))))
    loss, accuracy = (metrics_of(text)[name].summary for name in ("val_loss", "acc"))
    assert (loss.last, loss.best, loss.best_step) == (2.0, 1.0, 2)
    assert (accuracy.best, accuracy.best_step) == (3.0, 1)


def test_the_figure_of_a_rate_is_its_mean():
    text = lines(*({"step": s, "tokens_per_sec": v} for s, v in ((1, 100), (2, 300))))
    assert metrics_of(text)["tokens_per_sec"].summary.headline_value == 200


def test_the_best_value_is_finite():
    text = lines({"step": 1, "loss": 2.0}) + '{"step": 2, "loss": NaN}\n'
    summary = metrics_of(text)["loss"].summary
    assert (summary.best, str(summary.last)) == (2.0, "nan")


def test_best_value_follows_the_direction_set_by_the_user():
    text = lines(*({"step": s, "energy": v} for s, v in ((1, 3.0), (2, 1.0))))
    assert metrics_of(text)["energy"].summary.best is None
    assert metrics_of(text, MetricPreferences(falling=("energy",)))["energy"].summary.best == 1.0


def test_no_records_give_no_metrics():
    found = metrics_of("")
    assert (len(found), found.headline, found.charts, found.start) == (0, None, [], None)


def fits(*losses_of_fits):
    """The log of a script that fits several times, each from the first epoch."""
    rows = [{"epoch": e, "loss": v} for losses in losses_of_fits for e, v in enumerate(losses, 1)]
    return metrics_of(lines(*rows))["loss"]


def test_numbers_of_one_process_are_not_averaged():
    loss = fits([0.95, 0.73], [0.51, 0.34])
    assert segments_of(loss) == [{1: 0.95, 2: 0.73}, {1: 0.51, 2: 0.34}]
    assert loss.last_segment() == {1: 0.51, 2: 0.34}
    assert (loss.summary.first, loss.summary.last, loss.summary.best) == (0.95, 0.34, 0.34)
    assert loss.summary.count == 4


def test_best_value_may_come_from_an_earlier_fit():
    best = fits([0.9, 0.2, 0.4], [0.8, 0.3])
    assert (best.summary.best, best.summary.best_step, best.summary.last) == (0.2, 2, 0.3)


def names(*texts):
    """The names of the segments of the loss; a number stands for a line with this epoch."""
    lines = [f"Epoch {text}: loss=0.{text}" if isinstance(text, int) else text for text in texts]
    return [curve.name for curve in metrics_of("".join(f"{line}\n" for line in lines))["loss"].curves()]


def test_segments_are_named_by_the_headings_above_them_or_their_number():
    assert names("Fold 1", 1, 2, "Fold 1", 3, "Fold 2", 1) == [
        "Fold 1",
        "Fold 2",
    ]  # printed again, it begins nothing
    nested = ["Seed 1", "Fold 1", 1, "Fold 2", 1, "Seed 2", 1, "Fold 1", 1, "Refit", 1]
    assert names(*nested) == ["Seed 1, Fold 1", "Seed 1, Fold 2", "Seed 2", "Seed 2, Fold 1", "Refit"]
    assert names("Fold 1", 2, 1, "Fold 2", 1) == ["Fold 1", "2", "Fold 2"]
    assert names("Fold 1", 2, "Fold 2", 1, "Fold 1", 1) == ["Fold 1", "Fold 2", "Fold 1, 3"]


def test_each_rank_has_its_own_headings_and_fits_are_averaged_one_by_one():
    text = "".join(
        f"[1,{rank}]<stdout>:Fold {fold + rank}\n[1,{rank}]<stdout>:step 1: loss={10 * fold + rank}\n"
        for fold in (1, 2)
        for rank in (0, 1)
    )
    assert segments_of(metrics_of(text)["loss"]) == [{1: 10.5}, {1: 20.5}]


def test_value_printed_again_at_the_same_position_replaces_the_first():
    rows = [{"step": step, "loss": value} for step, value in ((100, 0.9), (110, 0.8), (110, 0.6))]
    assert segments_of(metrics_of(lines(*rows))["loss"]) == [{100: 0.9, 110: 0.6}]
