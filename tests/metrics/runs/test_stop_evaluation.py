"""Numbers of a running job held against its conditions, with a clock of the test's own."""

import math

import pytest

from batchai_magics.metrics import Measurement
from batchai_magics.metrics.runs.stop_evaluation import StopEvaluation, unmet_everywhere
from batchai_magics.models.stop_conditions import stop_condition


def stopping(*texts):
    return StopEvaluation([stop_condition(text) for text in texts])


def value(name, number, *, step=None, rank=None):
    return Measurement(name, number, step=step, rank=rank)


def test_one_such_value_is_enough_without_a_time():
    watch = stopping("loss is nan")
    watch.add([value("loss", 0.5, step=1, rank=0), value("loss", math.nan, step=2, rank=3)], 0)
    watch.add([value("loss", 0.5, step=3, rank=3)], 1)
    assert watch.reason(1) == 'stop-if "loss is nan": loss was nan at step 2 of rank 3'


def test_a_time_counts_from_the_first_such_value_without_a_break():
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


def test_a_pattern_of_ones_own_counts_whatever_its_letters():
    watch = stopping("gap > 3")
    watch.add([Measurement("Gap", 4.5, step=7, rank=None)], 0)
    assert watch.reason(0).endswith("Gap was 4.5 at step 7")


def test_a_condition_about_a_number_that_never_came_is_told_with_those_that_did():
    watch = stopping("los is nan", "loss is nan")
    watch.add([value("loss", 1), value("lr", 1)], 0)
    (told,) = watch.unmet(())
    assert told == 'stop-if "los is nan" had nothing to check: no los was printed (loss, lr)'


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


def test_other_numbers_stop_nothing():
    watch = stopping("loss > 3", "loss is inf")
    watch.add([value("val_loss", 10), value("loss", 3)], 0)
    assert watch.reason(1e9) == ""


def test_a_validation_metric_is_meant_in_any_spelling():
    for name in ("val_loss", "val/loss", "eval_loss", "validation loss"):
        watch = stopping("val_loss > 3")
        watch.add([value(name, 4.0, step=1)], 0)
        assert watch.reason(0) == f'stop-if "val_loss > 3": {name} was 4 at step 1'


@pytest.mark.parametrize("name", ["eval_loss", "val/loss", "validation_loss", "val_loss"])
def test_a_condition_may_spell_a_validation_metric_as_the_log_does(name):
    watch = stopping(f"{name} < 0.3")
    watch.add([value("val_loss", 0.2)], 0)
    assert watch.reason(0)
    assert not watch.unmet(())


def test_training_does_not_stop_for_a_condition_on_validation():
    watch = stopping("val_loss > 3")
    watch.add([value("loss", 4.0), value("train_loss", 4.0)], 0)
    assert watch.reason(0) == ""
