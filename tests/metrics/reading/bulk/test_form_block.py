"""Lines that are read in columns by their form: what the parser reads from each by itself."""

import itertools
import random
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchai_magics.metrics import Parser
from batchai_magics.metrics.reading.bulk.columns import Columns
from batchai_magics.metrics.reading.bulk.leads import iso_seconds
from batchai_magics.metrics.reading.bulk.reader import read_columns
from batchai_magics.metrics.reading.bulk.value_rows import ValueRows
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


@pytest.mark.parametrize("name", NAMES[::4])
def test_the_table_of_columns_is_that_of_the_records(name):
    log = varied(name)
    columns = read_columns([log], block_bytes=1 << 15)
    assert without_empty_columns(value_frame(columns, COLUMNS)).equals(frame(parsed(log)))


def test_most_lines_of_a_log_are_read_in_columns():
    log = b"".join(b"step %d: loss %.4f, lr 1.0e-04\n" % (n, 5 / n) for n in range(1, 5000))
    rows = [part for _, part in read_columns([log]).parts if isinstance(part, ValueRows)]
    assert sum(map(len, rows)) > 0.9 * 2 * 5000


numbers = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True).map(repr),
    st.floats(-1e6, 1e6).map("{:.4f}".format),
    st.floats(allow_nan=False, allow_infinity=False).map("{:.3e}".format),
    st.integers(0, 10**20).map("{:,}".format),
    st.integers(0, 10**17).map(str),
)
lines = st.builds("{}{}step {}: loss {}, lr {}\n".format,
    st.sampled_from(["", "2026-03-02 10:25:36,087 ", "2026-02-30T10:25:36Z ", "[rank3]: "]),
    st.sampled_from(["", "", "epoch 2 ", "epoch 2.5 "]),
    st.integers(0, 10**6), numbers, numbers,
)  # fmt: skip
others = st.sampled_from(["", "hello 3\n", "Epoch 7\n", "-------\n", "val loss: 0.25\n", "loss: 1.5\n"])


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
