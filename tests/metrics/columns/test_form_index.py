"""Lines that are read in columns by their form: what the parser reads from each by itself."""

import itertools
import random
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchai_magics.metrics import Parser
from batchai_magics.metrics.columns.prefix_columns import iso_seconds
from batchai_magics.metrics.columns.record_columns import Columns
from batchai_magics.metrics.columns.value_tables import ValueRows
from batchai_magics.metrics.reading.log_reader import read_columns
from batchai_magics.metrics.reading.timestamps import parse_timestamp
from batchai_magics.metrics.runs.step_series import COLUMNS, frame, without_empty_columns
from batchai_magics.metrics.runs.value_columns import value_frame
from tests.metrics.program_samples import NAMES, PROGRAMS

_KEPT = re.compile(rb"\d+[-:/]\d+(?:[-:/]\d+)*|[eE][-+]\d+|[A-Za-z@_]\d+|\d")  # times and names stay


def varied(name: str, times: int = 6) -> bytes:
    """The sample log several times, with other digits in its numbers."""
    log, rng = (PROGRAMS / f"{name}.log").read_bytes(), random.Random(name)

    def digit(match):
        return match[0] if len(match[0]) > 1 or rng.random() < 0.5 else b"%d" % rng.randint(1, 9)

    return b"".join([log, *(_KEPT.sub(digit, log) for _ in range(times))])


def parsed(log: bytes):
    parser = Parser()
    return [*parser.feed(log), *parser.finish()]


@pytest.mark.parametrize("name", NAMES)
def test_columns_hold_what_the_parser_reads(name):
    log = varied(name)
    columns = read_columns([log], block_bytes=1 << 15)
    assert repr([*columns]) == repr(parsed(log))
    assert len(columns) == len([*columns])


@pytest.mark.parametrize("name", NAMES)
def test_columns_behind_bare_numbers_hold_what_the_parser_reads(name):
    log = b"".join(
        b"%d: %b" % (number % 2, line)
        for number, line in enumerate(varied(name, 2).splitlines(keepends=True))
    )
    expected = repr(parsed(log))
    assert repr([*read_columns([log], block_bytes=1 << 15)]) == expected
    assert repr([*read_columns([log], block_bytes=999)]) == expected


@pytest.mark.parametrize("name", NAMES[::4])
def test_the_table_of_columns_is_that_of_the_records(name):
    log = varied(name)
    columns = read_columns([log], block_bytes=1 << 15)
    assert without_empty_columns(value_frame(columns, COLUMNS)).equals(frame(parsed(log)))


def test_most_lines_of_a_log_are_read_in_columns():
    log = b"".join(b"step %d: loss %.4f, lr 1.0e-04\n" % (n, 5 / n) for n in range(1, 5000))
    rows = [part for _, part in read_columns([log]).parts if isinstance(part, ValueRows)]
    assert sum(map(len, rows)) > 0.9 * 2 * 5000


BARE = """{"step": 1, "loss": 0.5}
{'loss': 0.5, 'lr': 1.5e-05, 'epoch': 0.01}
1/48 [==>..] - 1s - loss: 0.5
"""

numbers = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True).map(repr),
    st.floats(-1e6, 1e6).map("{:.4f}".format),
    st.floats(allow_nan=False, allow_infinity=False).map("{:.3e}".format),
    st.integers(0, 10**20).map("{:,}".format),
    st.integers(0, 10**17).map(str),
)
lines = st.builds("{}{}step {}: loss {}, lr {}\n".format,
    st.sampled_from(["", "2026-03-02 10:25:36,087 ", "2026-02-30T10:25:36Z ", "[rank3]: ", "3: ", "[3] "]),
    st.sampled_from(["", "", "epoch 2 ", "epoch 2.5 "]),
    st.integers(0, 10**6), numbers, numbers,
)  # fmt: skip
others = st.sampled_from(["", "hello 3\n", "Epoch 7\n", "-------\n", "val loss: 0.25\n", "loss: 1.5\n",
    "3: loss: 0.5, acc: 0.25\n", "[3] loss: 0.5, acc: 0.25\n", "3: Epoch 7\n", "3: hello\n"])  # fmt: skip


@given(st.lists(st.one_of(lines, lines, others), max_size=40), st.sampled_from([1, 30]))
def test_any_number_is_exact(log, times):
    data = ("step 1: loss 1.0, lr 1.0\n" + "".join(log) * times).encode()
    assert repr([*read_columns([data], block_bytes=4096)]) == repr(parsed(data))


def test_an_epoch_holds_for_the_lines_of_its_process():
    head = b"".join(
        b"[rank%d]: epoch 1 step %d loss 0.5\n[rank%d]: step 1 loss 0.5\n" % (n % 2, n, n % 2)
        for n in range(900)
    )
    log = head + b"[rank0]: epoch 5 step 1 loss 0.5\n[rank1]: step 2 loss 0.5\n[rank0]: step 3 loss 0.5\n"
    assert repr([*read_columns([log])]) == repr(parsed(log))
    assert [(r.rank, r.epoch) for r in read_columns([log])][-3:] == [(0, 5), (1, 1), (0, 5)]


def test_a_header_is_read_again_when_it_comes_again():
    part = b"Model:       resnet50\n" + b"step 1: loss 0.5\n" * 5000
    assert repr([*read_columns([part * 3])]) == repr(parsed(part * 3))


def test_dates_are_those_of_the_calendar():
    years, days = (1969, 1970, 1999, 2000, 2024, 2026, 2100, 2400), (0, 1, 28, 29, 30, 31, 32)
    stamps = [
        b"%04d-%02d-%02d %02d:59:%02d" % each
        for each in itertools.product(years, range(14), days, (0, 23, 24), (0, 59, 60))
    ]
    seconds = iso_seconds(np.frombuffer(b"".join(stamps), np.uint8).reshape(-1, 19)).tolist()
    expected = [parse_timestamp(stamp) for stamp in stamps]
    assert [None if each != each else each for each in seconds] == [
        each and each.seconds for each in expected
    ]


def test_columns_of_records_have_no_rows():
    assert not Columns.of(parsed(b"step 1: loss 0.5\n")).steps.step.size


def test_names_that_differ_only_in_digits_are_told_apart():
    lines = [
        f"step {n}: map{50 + 25 * (n % 2)}: 0.{n}, f1 score: 0.5, loss_{n % 3} 1.{n}\n"
        for n in range(1, 3000)
    ]
    log = "".join(lines).encode()
    records = [*read_columns([log])]
    assert repr(records) == repr(parsed(log))
    assert {(r.name, r.step % 2) for r in records if r.name.startswith("map")} == {("map50", 0), ("map75", 1)}
    assert {(r.name, r.step % 3) for r in records if r.name.startswith("loss")} == {
        (f"loss_{n}", n) for n in range(3)
    }


counts = st.one_of(st.integers(0, 200).map(str), st.sampled_from(["007", "1.5", "2.0", "-1", "null", '"3"']))
objects = st.builds('{{"{}": {}, "epoch": {}, {}"loss": {}, "top5": {}, "top1": 1{}}}\n'.format,
    st.sampled_from(["step", "global_step", "iter", "pid"]), counts, counts,
    st.sampled_from(["", "", '"rank": 3, ', '"time": 1763805600.25, ', '"time": 12.5, ', '"pid": 010, ',
        '"ts": "2026-03-02T10:25:36Z", ', '"name": "x", "value": 2, ', '"data": {"a": 1}, ',
        '"note": "step 12", ', '"loss": 1, ']),
    st.one_of(numbers, st.sampled_from(["0.5", "NaN", "-Infinity", "00.5", "true", "1e400", '"2"'])),
    st.floats(0, 1).map(repr), st.sampled_from(["", "2", ".5"]),
)  # fmt: skip
dicts = st.builds("{}{{'{}loss': {}, 'lr': 1.5e-05, 'epoch': {}}}\n".format,
    st.sampled_from(["", "", "2026-03-02 10:25:36,087 ", "[rank3]: "]), st.sampled_from(["", "eval_"]),
    numbers, st.sampled_from(["0.01", "0.5", "1.0", "2"]),
)  # fmt: skip
bars = st.builds("{}{}/{} [==>..] - {} - {}loss: {} - top5: 0.5\n".format,
    st.sampled_from(["", "", "  "]),
    st.sampled_from([1, 2, 10, 11, 48]), st.sampled_from([48, 11, "Unknown"]),
    st.sampled_from(["ETA: 2s", "1s", "1s 5ms/step", "ETA: 0s 714us/sample"]),
    st.sampled_from(["", "accuracy: 0.5 - ", "loss: 1 - "]),
    st.one_of(numbers, st.sampled_from(["0.5", "nan"])),
)  # fmt: skip
around = st.sampled_from([
    "hello 3\n", "Epoch 3/12\n", "Epoch 4/12\n", "step 7: loss 0.5\n",
    " 10%|#         | 10/100 [00:01<00:09]\n",
])  # fmt: skip


@given(st.lists(st.one_of(objects, dicts, bars, bars, lines, around), max_size=30), st.sampled_from([1, 20]))
def test_objects_dicts_and_bars_are_read_as_line_by_line(log, times):
    data = (BARE + "".join(log) * times).encode()
    expected = repr(line_by_line(data))
    assert repr(parsed(data)) == expected
    assert repr([*read_columns([data], block_bytes=4096)]) == expected


def test_a_bar_that_a_format_has_read_loses_no_dict_above_it():
    bars = "1/48 [==>..] - ETA: 2s - loss: 0.0 - top5: 0.5\n 10%|#         | 10/100 [00:01<00:09]\n"
    part = bars + "{'loss': 0.25, 'lr': 1.5e-05, 'epoch': 0.01}\n"
    records = line_by_line(("step 1: loss 0.5\n" + part * 4).encode())
    assert [record.value for record in records if record.name == "loss"][2:] == [0.25] * 4


def test_a_negative_zero_of_json_has_no_sign():
    data = b'{"step": 1, "loss": -5}\n{"step": 2, "loss": -0}\n' * 400
    expected = repr(line_by_line(data))
    assert repr([*read_columns([data], block_bytes=4096)]) == expected


BARE = "\n".join(
    [
        '{"step": 1, "loss": 0.5}',
        "{'loss': 0.5, 'lr': 1.5e-05, 'epoch': 0.01}",
        "1/48 [==>..] - 1s - loss: 0.5",
        "",
    ]
)


def line_by_line(log: bytes):
    """The records without any form: each line is read by the rows of the table or the grammar."""
    parser = Parser()
    file = parser.file_of(None)
    records = []
    for line in log.splitlines(keepends=True):
        records += file.feed(line)
        file.shapes.plans.clear()
    return [*records, *parser.finish()]


@pytest.mark.parametrize("name", ["objects", "dicts", "bars"])
def test_most_objects_dicts_and_bars_are_read_in_columns(name):
    texts = {
        "objects": '{"step": %d, "loss": %.4f, "epoch": 1}\n',
        "dicts": "{'loss': %.4f, 'epoch': %.2f}\n",
        "bars": "%d/99999 [==>..] - ETA: 2s - loss: %.4f\n",
    }
    log = "".join(texts[name] % (n, n / 1000) for n in range(1, 20_000)).encode()
    rows = [part for _, part in read_columns([log]).parts if isinstance(part, ValueRows)]
    assert sum(rows_of.line_count for rows_of in rows) > 0.9 * 20_000
