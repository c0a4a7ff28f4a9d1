"""What earlier lines say about later ones, and what they say no more."""

import pytest

from batchai_magics.metrics.reading import parser_state
from batchai_magics.metrics.reading.parser_state import MAX_DIGITS, RankState, RankStates, StepCadence


def paced(*steps, num_batches=None):
    """The rhythm that these steps and a header tell."""
    pace = StepCadence()
    pace.num_batches = num_batches
    for step in steps:
        pace.observe(step)
    return pace


@pytest.mark.parametrize(
    ("epoch", "step", "is_kept"),
    [(1, 2, True), (1, 3, False), (2, 2, False), (None, 2, False), (1, None, False)],
)
def test_what_was_shown_is_forgotten_at_another_step_or_epoch(epoch, step, is_kept):
    told = RankState(epoch=1, step=2, reported={"loss": 0.5})
    told.enter_step(epoch, step)
    assert (told.epoch, told.step) == (epoch, step)
    assert told.reported == ({"loss": 0.5} if is_kept else {})


@pytest.mark.parametrize(
    ("months", "years"),
    [
        ([3, 4, 12], [2019, 2019, 2018]),
        ([12, 1, 2], [2019, 2020, 2020]),
        ([12, 1, 12, 1], [2019, 2020, 2019, 2020]),  # two processes at the turn of a year
        ([7, 1], [2019, 2019]),
        ([8, 1], [2019, 2020]),
        ([1, 7, 6], [2019, 2019, 2019]),
        ([1, 8], [2019, 2018]),
    ],
)
def test_the_year_of_a_stamp_is_the_one_that_is_close_to_the_last(months, years):
    told = RankState(year=2019, month=months[0])
    assert [told.year_for(month) for month in months] == years


@pytest.mark.parametrize(("year", "month", "expected"), [(None, 0, None), (None, 3, None), (2019, 0, 0)])
def test_no_stamp_has_a_year_while_none_was_told(year, month, expected):
    told = RankState(year=year, month=month)
    assert (told.year_for(5), told.month) == (expected, month)


def test_each_process_has_a_memory_of_its_own_and_there_are_not_too_many(monkeypatch):
    monkeypatch.setattr(parser_state, "_MAX_RANKS", 2)
    memories = RankStates()
    first, second = memories.of(None), memories.of(1)
    assert (memories.of(None) is first, memories.of(1) is second, first is second) == (True, True, False)
    memories.of(2)
    assert memories.of(1) is not second


@pytest.mark.parametrize(
    ("steps", "every"),
    [((), 0), ((1,), 0), ((1, 20), 20), ((20, 30), 10), ((30, 7), 1), ((2,), 2), ((30, 7, 40), 1)],
)
def test_the_rhythm_is_what_all_steps_behind_the_first_are_multiples_of(steps, every):
    assert paced(*steps).interval == every


def test_accuracies_that_were_seen_once_are_expected_from_then_on():
    pace = StepCadence()
    pace.observe(10)
    assert not pace.has_accuracy
    pace.observe(20, has_accuracy=True)
    pace.observe(30)
    assert pace.has_accuracy


@pytest.mark.parametrize(
    ("left", "expected"),
    [
        (b"20\t", (20, b"")),
        (b"1\t", (1, b"")),
        (b"23 ", (23, b"")),  # alone on its line it is taken as it is
        (b"0\t", (None, b"")),
        (b"[1,0]<stdout>:23 ", (23, b"[1,0]<stdout>:")),
        (b"20", (None, b"20")),  # no blank parts it from the rate
        (b"\t", (None, b"\t")),
        (b"step\t", (None, b"step\t")),
        (b"9" * MAX_DIGITS + b"\t", (int("9" * MAX_DIGITS), b"")),
        (b"9" * (MAX_DIGITS + 1) + b"\t", (None, b"9" * (MAX_DIGITS + 1) + b"\t")),
    ],
)
def test_a_number_alone_on_its_line_is_the_step(left, expected):
    assert StepCadence().split_step(left) == expected


@pytest.mark.parametrize(
    ("left", "step"),
    [
        (b"hello 1 ", 1),
        (b"hello 23 ", 23),
        (b"hello 100 ", 100),
        (b"hello 101 ", 1),  # beyond what the header says
        (b"hello 0 ", None),
        (b"hello7 ", 7),  # nothing fits: the whole is taken
        (b"hello120 ", 20),
        (b"version 1.810 ", 10),
        (b"version 1.81 ", 1),
        (b"version 1.87 ", None),  # nothing fits behind a decimal point
        (b"see 1. 7 ", 7),
        (b"end.20 ", 20),
        (b"a1x87 ", 87),  # a digit without a point is no decimal
        (b"TensorFlow:  1.81 ", 1),
        (b"Num batches:  10020 ", 20),
        (b"Num batches:  1001 ", 1),
    ],
)
def test_behind_other_text_the_longest_end_that_can_be_a_step_is_taken(left, step):
    assert paced(num_batches=100).split_step(left)[0] == step


def test_what_fits_is_told_by_the_steps_that_were_seen():
    assert paced(25, 50).split_step(b"version 1.875 ")[0] == 75
    assert paced(25, 50).split_step(b"version 1.870 ")[0] is None
    assert paced().split_step(b"version 1.870 ")[0] == 70


def test_a_letter_parts_no_step_from_what_is_before_it():
    assert paced(30, 60).split_step(b"modelX160 ")[0] == 60
    assert paced(30, 60).split_step(b"model 160 ")[0] == 160
