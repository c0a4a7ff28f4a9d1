"""Conditions that a job is stopped for, as people write them."""

import math

import pytest

from batchai_magics.errors import UsageError
from batchai_magics.models.stop_conditions import Predicate, conditions_of, stop_condition, with_conditions


@pytest.mark.parametrize(
    ("text", "metric", "predicate", "bound", "held_s"),
    [
        ("loss is nan", "loss", Predicate.NAN, 0, 0),
        ("loss is NaN", "loss", Predicate.NAN, 0, 0),
        ("val_loss is not  finite", "val_loss", Predicate.NOT_FINITE, 0, 0),
        ("loss is inf for 10s", "loss", Predicate.INFINITE, 0, 10),
        ("images/sec < 50 for 5m", "images_per_sec", Predicate.BELOW, 50, 300),
        ("images_per_sec<=50 for 1.5h", "images_per_sec", Predicate.AT_MOST, 50, 5400),
        ("loss>1e3", "loss", Predicate.ABOVE, 1000, 0),
        ("top-1 >= .75", "top_1", Predicate.AT_LEAST, 0.75, 0),
        ("x == -2", "x", Predicate.EQUAL, -2, 0),
        ("x != 0", "x", Predicate.DIFFERENT, 0, 0),
    ],
)
def test_a_condition_is_read(text, metric, predicate, bound, held_s):
    read = stop_condition(text)
    assert (read.metric, read.test, read.bound, read.held_s) == (metric, predicate, bound, held_s)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is not a valid condition; write it as"),
        ("loss", "it has no comparison"),
        ("loss = 3", "use == to compare, not ="),
        ("accuracy > 90%", "only cpu and gpu are in percent"),
        ("loss is not nan", "is not a valid condition"),
        ("loss < 3 for 5", "is not a valid condition"),
        ("lossis nan", "is not a valid condition"),
        ("no progress for 0s", "its duration is 0"),
        ("loss < nan", "is not a valid condition"),
        ("__import__('os') > 1", "is not a valid condition"),
    ],
)
def test_invalid_condition_is_refused_with_the_reason(text, reason):
    with pytest.raises(ValueError, match="is not a valid condition") as caught:
        stop_condition(text)
    assert reason in str(caught.value)
    assert "`loss is nan`" in str(caught.value)


def test_a_value_meets_a_condition_or_not():
    assert stop_condition("loss is nan").is_met_by(math.nan)
    assert not stop_condition("loss is nan").is_met_by(math.inf)
    assert not stop_condition("loss < 3").is_met_by(math.nan)
    assert stop_condition("loss is not finite").is_met_by(-math.inf)


def test_error_names_the_invalid_condition():
    assert conditions_of(["loss is nan", "loss is nan"]) == ("loss is nan",)
    assert conditions_of(None) == ()
    with pytest.raises(UsageError, match="--stop-if: 'loss' is not a valid condition"):
        conditions_of(["loss is nan", "loss"])


def test_conditions_are_added_to_the_files_with_their_patterns():
    body = with_conditions({"batchaiStopIf": ["a > 1"]}, ["gap > 3"], {"gap": r"gap=(\d+)", "other": "(x)"})
    assert body == {"batchaiStopIf": ["a > 1", "gap > 3"], "batchaiPatterns": {"gap": r"gap=(\d+)"}}
