"""Numbers of a running job held against its conditions, with a clock of the test's own."""

import math

from batchai_magics.metrics import Measurement
from batchai_magics.metrics.runs.stop_evaluation import StopEvaluation, unmet_everywhere
from batchai_magics.models.stop_conditions import stop_condition


def stopping(*texts):
    return StopEvaluation([stop_condition(text) for text in texts])


def value(name, number, *, step=None, rank=None):
    return Measurement(name, number, step=step, rank=rank)


def test_one_matching_value_is_enough_without_a_duration():
    watch = stopping("loss is nan")
    watch.add([value("loss", 0.5, step=1, rank=0), value("loss", math.nan, step=2, rank=3)], 0)
    watch.add([value("loss", 0.5, step=3, rank=3)], 1)
    assert watch.reason(1) == 'stop-if "loss is nan": loss was nan at step 2 of rank 3'


def test_infinity_of_either_sign_is_inf_and_nan_is_not():
    for number, word in ((math.inf, "inf"), (-math.inf, "-inf")):
        watch = stopping("loss is inf")
        watch.add([value("loss", 1e9, step=1), value("loss", math.nan, step=2)], 0)
        assert watch.reason(0) == ""
        watch.add([value("loss", number, step=3)], 0)
        assert watch.reason(0) == f'stop-if "loss is inf": loss was {word} at step 3'


def test_duration_counts_from_the_first_matching_value_without_interruption():
    watch = stopping("images/sec < 50 for 5m")
    watch.add([value("images_per_sec", 40)], 0)
    assert watch.reason(299) == ""
    watch.add([value("images_per_sec", 60)], 200)
    watch.add([value("images_per_sec", 30)], 250)
    assert watch.reason(549) == ""
    assert watch.reason(550) == 'stop-if "images/sec < 50 for 5m": images_per_sec was 30'


def test_each_rank_counts_by_itself():
    watch = stopping("x > 1 for 10s")
    watch.add([value("x", 2, rank=0)], 0)
    watch.add([value("x", 0, rank=1)], 5)
    assert watch.reason(10).endswith("x was 2 of rank 0")


def test_a_condition_had_nothing_to_check_if_no_rank_printed_its_metric():
    ranks = [stopping("los is nan", "loss > 3") for _ in range(2)]
    ranks[0].add([value("loss", 1)], 0)
    told = unmet_everywhere([ranks[0].unmet(["metrics.csv"]), ranks[1].unmet(())])
    assert told == [
        'stop-if "los is nan" had nothing to check: no los was printed (loss)',
        'stop-if "los is nan" was not evaluated to the end: metrics.csv',
        'stop-if "loss > 3" was not evaluated to the end: metrics.csv',
    ]
    assert unmet_everywhere([]) == []


def test_condition_matches_every_spelling_of_its_metric_and_no_other_metric():
    for asked, printed in (
        ("val_loss", "val/loss"),
        ("validation_loss", "val_loss"),
        ("val/loss", "eval_loss"),
        ("gap", "Gap"),
    ):
        watch = stopping(f"{asked} > 3")
        watch.add([value("loss", 9), value("train_loss", 9), value("val_acc", 9)], 0)
        assert watch.reason(1e9) == ""
        watch.add([value(printed, 4.0, step=1)], 0)
        assert watch.reason(0) == f'stop-if "{asked} > 3": {printed} was 4 at step 1'
        assert not watch.unmet(())
