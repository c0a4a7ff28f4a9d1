"""Columns give the numbers that were added, however these came, and equal ones take no memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchai_magics.metrics.column import MISSING, Column

NUMBERS = st.none() | st.integers(1 - (1 << 63), 1 << 65) | st.floats(allow_nan=False)


@given(
    st.lists(st.lists(NUMBERS, max_size=4), max_size=4),
    st.sampled_from([list, tuple, Column]),
    st.integers(0, 9),
)
def test_a_column_gives_the_numbers_that_were_added(
    parts: list[list[float | None]], form: Callable[[list[float | None]], Sequence[float | None]], begin: int
) -> None:
    column, numbers = Column(), [number for part in parts for number in part]
    for part in parts:
        column.extend(form(part))
    places = range(begin, len(numbers))
    assert repr([*column]) == repr(numbers)
    assert repr([column[place] for place in places]) == repr(numbers[begin:])
    assert repr([*column.take([*places])]) == repr([*column[begin:]]) == repr(numbers[begin:])
    assert (None in column, column.is_missing) == (None in numbers, {*numbers} <= {None})


@pytest.mark.parametrize("number", [7, 0.5, float("nan"), None])
def test_equal_numbers_take_no_memory(number: float | None) -> None:
    column = Column([number])
    column.extend([number] * 99)
    assert (column.is_constant, len(column)) == (True, 100)


def test_signs_of_zero_are_kept() -> None:
    assert repr([*Column([0.0, -0.0])]) == "[0.0, -0.0]"


def test_a_column_for_numpy_has_a_value_for_none() -> None:
    assert [*Column([1, None, 3]).fillna(MISSING)] == [1, MISSING, 3]
    assert [*Column([1.5, None]).fillna(0.0)] == [1.5, 0.0]


def test_an_empty_part_of_equal_numbers_takes_others():
    column = Column([5, 5]).take([])
    column.extend([7])
    assert list(column) == [7]
