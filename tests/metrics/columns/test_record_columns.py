"""Step records as columns: which process a row is of, where rows do not tell it."""

from __future__ import annotations

import pytest

from batchai_magics.metrics.columns.record_columns import StepColumns, StepStore
from batchai_magics.metrics.measurement import StepRecord


def columns(*steps_and_ranks: tuple[int, int | None]) -> StepColumns:
    return StepColumns.of(
        [StepRecord(step, rank, 100.0, 1.0, 2.0, 7.0, None, None, 50) for step, rank in steps_and_ranks]
    )


@pytest.mark.parametrize(
    ("rows", "slots"),
    [
        ([], []),
        ([(1, None), (10, None), (20, None)], [0, 0, 0]),
        ([(1, None), (1, None), (10, None), (10, None), (10, None)], [0, 1, 0, 1, 2]),
        ([(10, None), (1, None), (10, None), (1, None)], [0, 0, 1, 1]),
        ([(1, 5), (1, None), (1, 3), (1, None), (10, 5)], [5, 0, 3, 1, 5]),
    ],
    ids=["none", "one process", "several", "in any order", "some tell it"],
)
def test_rows_of_a_step_without_a_rank_are_of_one_process_after_the_other(rows, slots) -> None:
    assert columns(*rows).rank_slots().tolist() == slots


def test_columns_give_the_records_that_they_are_made_of() -> None:
    records = list(columns((1, None), (10, 3)).records())
    assert [(record.step, record.rank, record.top_1, record.wall_time) for record in records] == [
        (1, None, None, None),
        (10, 3, None, None),
    ]
    known = records[0]._replace(top_1=0.25, top_5=0.5, wall_time=1.5e9)
    assert list(StepColumns.of([known, records[1]]).records()) == [known, records[1]]


@pytest.mark.parametrize(
    "losses", [[0.5] * 9, [0.5] * 8 + [0.25], [float("nan")] * 9, [1.0, *[0.5] * 8], [0.0, -0.0] * 4]
)
def test_a_store_gives_the_rows_of_all_parts(losses):
    records = [StepRecord(10 * n, None, 1.5, 1.0, 1.0, loss, offset=n) for n, loss in enumerate(losses)]
    store = StepStore()
    for part in (records[:0], records[:3], records[3:4], records[4:]):
        store.add(StepColumns.of(part))
    columns = store.columns()
    assert repr([*columns.records()]) == repr(records)
    assert columns.rank.strides == (0,)
    assert not len(store.columns())
