"""The steps of numbers over a whole run, and which attempts belong to one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchai_magics.metrics import Parser, plot
from batchai_magics.metrics.measurement import LENGTH, Fact, Measurement
from batchai_magics.metrics.runs.log_runs import on_timeline
from batchai_magics.metrics.runs.timeline import Timeline


def number(step=None, epoch=None, *, name="loss", phase="train", rank=None):
    return Measurement(name, 0.5, step=step, epoch=epoch, phase=phase, rank=rank)


def steps(*records):
    placed = Timeline().add(records)
    return [record.step for record in placed if isinstance(record, Measurement)]


@pytest.mark.parametrize(
    ("positions", "counted"),  # each position is an epoch with its steps
    [
        ([(1, [90, 100]), (2, [100, 110])], [90, 100, 100, 110]),
        ([(3, [4, 8]), (4, [4, 8]), (5, [4, 8])], [4, 8, 12, 16, 20, 24]),
        ([(0, [0, 1, 2]), (1, [0, 1, 2])], [0, 1, 2, 3, 4, 5]),
        ([(1, [38]), (2, [38]), (3, [38])], [38, 76, 114]),
        ([(1, [1, 2]), (2, [1, 2]), (4, [1, 2])], [1, 2, 3, 4, 7, 8]),
        ([(0.5, [1, 2]), (1.5, [1, 2]), (2.5, [1, 2])], [1, 2, 3, 4, 5, 6]),
        ([(0.25, [1, 2]), (0.5, [1, 2]), (1, [1, 2])], [1, 2, 3, 4, 5, 6]),
        ([(1, [1, 3]), (2, [1, 2]), (3, [4, 5])], [1, 3, 1 + 3, 2 + 3, 4 + 2 * 3, 5 + 2 * 3]),
        ([(1, [1, 2]), (2, [1, 2]), (1, [1, 2]), (2, [1, 2])], [1, 2, 3, 4] * 2),
        ([(None, [1, 2]), (None, [1, 2])], [1, 2, 1, 2]),
    ],
    ids=[
        "steps over the whole run stay",
        "epochs follow each other by the length of those that ended",
        "a counter from 0 has a step more than its last number",
        "an epoch that is printed at its end alone is continued",
        "a missing epoch has its place",
        "epochs between whole ones follow each other in their order",
        "parts of an epoch follow each other too",
        "a counter that has gone back once is counted within epochs from then on",
        "epochs that begin again are another fit at the same places",
        "steps that go back without epochs stay",
    ],
)
def test_steps_of_epochs_are_counted_over_the_run(positions, counted):
    assert steps(*(number(step, epoch) for epoch, in_epoch in positions for step in in_epoch)) == counted


@pytest.mark.parametrize(("printed", "length"), [("40 loss", 40), ("1,000 loss", 1000), ("30 loss", 41)])
def test_an_epoch_is_as_long_as_the_printed_total_unless_steps_exceed_it(printed, length):
    run = [number(step, epoch) for epoch in (1, 2) for step in (0, 20, 40)]
    assert steps(Fact(LENGTH, printed), *run) == [0, 20, 40, length, length + 20, length + 40]


@pytest.mark.parametrize(("printed", "length"), [("8 loss", 8), ("5 loss", 7), ("9 acc", 7)])
def test_a_round_of_a_bar_is_as_long_as_the_printed_total_unless_steps_exceed_it(printed, length):
    bar = [number(step) for step in (0, 3, 6)]
    run = [*bar, number(epoch=1, name="acc"), *bar, number(epoch=2, name="acc")]
    placed = steps(Fact(LENGTH, printed), *run)
    assert placed[:3] + placed[4:7] == [0, 3, 6, length, length + 3, length + 6]


def test_line_without_a_step_gets_the_last_step_of_its_epoch():
    bars = [[number(step) for step in (1, 2)] for _ in range(3)]
    ends = [number(epoch=epoch, name="acc") for epoch in (1, 2, 3)]
    in_turn = [record for bar, end in zip(bars, ends, strict=True) for record in (*bar, end)]
    late = [*bars[0], bars[1][0], ends[0], bars[1][1], *bars[2], ends[1], ends[2]]
    assert steps(*in_turn) == [1, 2, 2, 3, 4, 4, 5, 6, 6]
    assert steps(*late) == [1, 2, 3, 2, 4, 5, 6, 4, 6]


def test_late_line_without_a_step_gets_the_last_step_of_its_own_epoch():
    late = [number(epoch=1, name="acc"), number(epoch=1, name="f1")]
    last = [number(epoch=2, name="acc"), number(epoch=2, name="f1")]
    for epochs in ((1, 2), (None, None)):
        first, second = ([number(step, epoch) for step in (1, 2)] for epoch in epochs)
        assert steps(*first, second[0], *late, second[1], *last) == [1, 2, 3, 2, 2, 4, 4, 4]


def test_step_of_a_line_without_one_follows_the_end_of_its_epoch():
    run = [number(1, 1), number(2, 1), number(1, 2), number(epoch=2, name="acc"), number(2, 2)]
    assert placed_one_by_one(run) == steps(*run) == [1, 2, 3, 4, 4]


def test_length_of_a_round_comes_from_counters_that_restart_at_their_least_step():
    def ends(epoch):
        return [number(10 * epoch, name="global"), number(epoch=epoch, name="acc")]

    rounds = [*map(number, (0, 1, 2)), *ends(1), *map(number, (1, 2)), *ends(2)]
    assert steps(*rounds) == [0, 1, 2, 10, 2, 4, 5, 20, 5]


def test_bar_after_the_line_that_ends_an_epoch_belongs_to_the_next_epoch():
    """In one stream, what has no epoch has that of the line above."""
    run = [number(step, late) for late in (None, 1, 2) for step in (1, 2)]
    ends = [number(epoch=epoch, name="acc") for epoch in (1, 2, 3)]
    assert steps(*run[:2], ends[0], *run[2:4], ends[1], *run[4:], ends[2]) == [1, 2, 2, 3, 4, 4, 5, 6, 6]


def test_line_without_a_step_gets_the_latest_training_step_if_its_epoch_has_no_known_end():
    assert steps(number(1, 1), number(2, 1), number(epoch=1, name="acc")) == [1, 2, 2]
    trained = [number(step, epoch) for epoch in (1, 2) for step in (1, 2)]
    assert steps(*trained, number(epoch=3, name="acc")) == [1, 2, 3, 4, 4]


def test_validation_steps_counted_over_the_run_are_unchanged():
    validation = [number(step, name="val_loss", phase="val") for step in (60, 120)]
    assert steps(number(50), validation[0], number(100), validation[1]) == [50, 60, 100, 120]


def test_steps_of_a_validation_are_counted_within_its_epoch_and_never_before_training():
    validation = [number(step, 2, name="val_loss", phase="val") for step in (0, 2)]
    assert steps(number(1, 1), number(2, 1), number(1, 2), *validation) == [1, 2, 3, 3, 4]


def test_several_lines_of_an_epoch_get_the_training_steps_at_which_they_were_printed():
    run = [number(1, 1), number(epoch=1, name="acc"), number(2, 1), number(epoch=1, name="acc"), number(1, 2)]
    assert steps(*run) == [1, 1, 2, 2, 3]


def test_batches_of_a_validation_get_the_step_of_training():
    validation = [number(step, name="val_loss", phase="val") for step in (0, 1)]
    assert steps(number(50), *validation, number(100), *validation) == [50, 50, 50, 100, 100, 100]


def test_each_rank_has_its_own_timeline():
    run = [number(step, epoch, rank=rank) for epoch in (1, 2) for rank in (0, 1) for step in (1, 2 + rank)]
    assert steps(*run) == [1, 2, 1, 3, 3, 4, 4, 6]


def test_timeline_of_a_timeline_is_unchanged():
    run = [number(step, epoch) for _ in range(2) for epoch in (1, 2) for step in (1, 2)]
    run.append(number(epoch=2, name="acc"))
    assert [*Timeline().add(Timeline().add(run))] == [*Timeline().add(run)]


def test_timeline_reports_changed_steps():
    timeline = Timeline()
    parts = [[number(1)], [number(2)], [number(epoch=1, name="acc")], [number(1)], [number(2)], [number(3)]]
    moved = []
    for part in parts:
        timeline.add(part)
        moved.append(timeline.has_moved)
    assert moved[:2] == [False, False]
    assert moved[-1]
    assert steps(*(record for (record,) in parts)) == [1, 2, 2, 3, 4, 5]


def placed_one_by_one(numbers):
    """The steps of numbers as a live view places them: all anew whenever some have moved."""
    timeline, placed = Timeline(), []
    for count, each in enumerate(numbers, start=1):
        placed += timeline.add([each])
        if timeline.has_moved:
            timeline = Timeline()
            placed = [*timeline.add(numbers[:count])]
    return [each.step for each in placed]


def test_fractional_epochs_move_later_ones():
    run = [number(step, epoch) for epoch in (0.5, 2.5, 1.5) for step in (1, 2)]
    assert placed_one_by_one(run) == steps(*run) == [1, 2, 5, 6, 3, 4]


def test_validations_before_the_first_training_step_move_to_the_training_step():
    """As long as nothing is trained, steps of a validation are those of the run."""
    validation = number(4, name="val_loss", phase="val")
    run = [validation, number(epoch=2, name="acc"), number(7, 2)]
    assert placed_one_by_one(run) == steps(*run)


EPOCHS = st.lists(st.lists(st.integers(0, 9), min_size=1, unique=True).map(sorted), min_size=1, max_size=4)


@given(EPOCHS, st.booleans(), st.booleans(), st.booleans())
def test_numbers_added_one_by_one_get_the_same_steps_as_all_at_once(epochs, has_epoch, is_ended, is_global):
    run = []
    for epoch, in_epoch in enumerate(epochs, start=1):
        begin = 10 * epoch * is_global
        run += [number(begin + step, epoch if has_epoch else None) for step in in_epoch]
        run += [number(epoch=epoch, name="acc")] * is_ended
    assert placed_one_by_one(run) == steps(*run)


@given(EPOCHS, st.booleans())
def test_lines_of_several_ranks_get_the_same_steps_one_by_one_and_at_once(epochs, has_epoch):
    run = [
        number(step, epoch if has_epoch else None, name=name, rank=rank)
        for epoch, in_epoch in enumerate(epochs, start=1)
        for step in in_epoch
        for rank in (0, 1)
        for name in ("loss", "acc")
    ]
    assert placed_one_by_one(run) == steps(*run)


POSITIONS = st.tuples(st.none() | st.integers(0, 4), st.none() | st.integers(1, 3))


@given(st.lists(st.tuples(POSITIONS, st.sampled_from(["loss", "acc"])), max_size=12))
def test_numbers_in_any_order_are_placed_as_they_come(run):
    assert len(placed_one_by_one([number(*position, name=name) for position, name in run])) == len(run)


def test_validation_of_each_epoch_is_placed_at_the_training_step_of_the_run():
    run = [number(100, 1), number(epoch=1, name="val_acc", phase="val"), number(200, 2)]
    run.append(number(epoch=2, name="val_acc", phase="val"))
    assert placed_one_by_one(run) == steps(*run) == [100, 100, 200, 200]


def losses_of(text: str) -> list[float]:
    """The losses of the last run of a log."""
    parser = Parser()
    run = on_timeline(parser.feed(text.encode()) + parser.finish())
    return [each.value for each in run if isinstance(each, Measurement)]


def logged(*steps: int, attempt: int, key: str = "step") -> str:
    """What an attempt logs at these steps: its number and the step as its loss."""
    mark = f"[batchai] attempt {attempt} begins on node2: it reached its time limit\n" * (attempt > 1)
    return mark + "".join(f'{{"{key}": {step}, "loss": {attempt}.{step}}}\n' for step in steps)


def test_resumed_attempt_continues_the_run_and_restarted_attempt_replaces_it():
    first = logged(1, 2, 3, attempt=1)
    assert losses_of(first + logged(4, 5, attempt=2)) == [1.1, 1.2, 1.3, 2.4, 2.5]
    assert losses_of(first + logged(1, attempt=2)) == [2.1]


def test_steps_that_a_resumed_attempt_repeats_are_counted_once():
    text = logged(1, 2, 3, attempt=1) + logged(2, 3, attempt=2) + logged(3, 4, attempt=3)
    assert losses_of(text) == [1.1, 2.2, 3.3, 3.4]


def test_an_attempt_that_resumes_an_epoch_continues_the_run():
    text = logged(1, 2, attempt=1, key="epoch") + logged(2, 3, attempt=2, key="epoch")
    assert losses_of(text) == [1.1, 2.2, 2.3]


def test_attempt_without_numbers_yet_keeps_earlier_ones():
    assert losses_of(logged(1, 2, attempt=1) + logged(attempt=2)) == [1.1, 1.2]


def test_a_chart_marks_where_an_attempt_begins():
    text = logged(1, 2, 3, attempt=1) + logged(3, 4, attempt=2) + logged(5, attempt=3)
    parser = Parser()
    ax = plot(parser.feed(text.encode()) + parser.finish())
    assert [line.get_xdata()[0] for line in ax.lines if line.get_label() == "_attempt"] == [3, 5]
