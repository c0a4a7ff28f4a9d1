"""Measurements as columns, as a table of their lines, and as JSON."""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchai_magics.metrics import Fact, Measurement, frame, read_metrics
from batchai_magics.metrics.column import MISSING, Column
from batchai_magics.metrics.measurement import json_value
from batchai_magics.metrics.measurement_table import MeasurementTable
from tests.metrics.log_text import step_numbers

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


RECORDS = [
    Fact("model", "resnet50", 0, 5, 1.5),
    *step_numbers(1, None, offset=10),
    *step_numbers(10, 3, loss=-0.0, top_1=0.25, top_5=0.5, offset=20, wall_time=1.5e9),
    Measurement("val_loss", float("nan"), "", None, 2, 0, 30, None, "val"),
    Fact("total_images_per_sec", "5.25", None, 40),
    Measurement("val_loss", 0.5, "", None, 2.5, 0, 50, None, "val"),
    *step_numbers(20, 3, loss=0.0, offset=60),
]


@pytest.mark.parametrize("cut", range(0, len(RECORDS), 3))
def test_a_table_gives_the_records_that_were_added(cut: int) -> None:
    table = MeasurementTable()
    table.add_records(RECORDS[:cut])
    table.add_records(RECORDS[cut:])
    assert (repr([*table]), len(table)) == (repr(RECORDS), len(RECORDS))


def test_thousands_of_names_are_as_many_numbers_and_no_dense_frame() -> None:
    table = MeasurementTable.of(Measurement(f"m{n % 5000}", 1.5, step=n, offset=n) for n in range(10_000))
    numbers = sum(len(column) for lines in table.lines for column in lines.values)
    assert (numbers, len(table)) == (10_000, 10_000)


def test_lines_of_several_forms_with_one_metric_stay_in_file_order() -> None:
    log = "".join(f'{{"step": {n}, "loss": {n}.5}}\nstep {n} loss {n}.25\n' for n in range(1, 99))
    values = [number.value for number in read_metrics(log.encode()).records]
    assert values == [value for n in range(1, 99) for value in (n + 0.5, n + 0.25)]


def test_a_frame_has_the_lines_of_all_columns_in_file_order() -> None:
    records = [
        Measurement(name, float(n), "", n, offset=n) for n, name in enumerate(["loss", "acc", "acc", "loss"])
    ]
    table = frame(records)
    assert table["step"].tolist() == [0, 1, 2, 3]
    assert [*table.columns] == ["step", "loss", "acc"]
    assert table["loss"].isna().tolist() == [False, True, True, False]


def test_a_table_of_thousands_of_metrics_one_a_line_is_sparse():
    names = [f"m{number}" for number in range(3000)]
    values = [(name, step) for step in range(3) for name in names]
    records = [
        Measurement(name, step + 0.5, "", step, offset=line) for line, (name, step) in enumerate(values)
    ]
    table = frame(records)
    assert table.shape == (9000, 3001)
    assert table["m7"].dropna().tolist() == [0.5, 1.5, 2.5]
    assert table["step"][table["m7"].notna()].tolist() == [0, 1, 2]
    assert table.memory_usage().sum() < 2_000_000


class Color(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Pair:
    speed: float
    names: tuple[str, ...]


def test_values_are_converted_to_json():
    told = json_value({0: Pair(float("nan"), ("a",)), "is": [True, 7, None, Color.RED, 1 / 3, float("-inf")]})
    assert told == {
        "0": {"speed": "NaN", "names": ["a"]},
        "is": [
            True,
            7,
            None,
            "red",
            1 / 3,
            "-Infinity",
        ],  # every digit: what is read again is the same number
    }
    json.dumps(told, allow_nan=False)
