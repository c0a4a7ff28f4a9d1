"""Growing files read as columns against the parser: the same records from any parts of any length."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchai_magics.metrics import Parser
from batchai_magics.metrics.measurement_table import MeasurementTable
from batchai_magics.metrics.reading.timestamps import WriteTimes
from tests.metrics.log_text import step, step_lines
from tests.metrics.reading.test_log_reader import logs

ranks = st.sampled_from([None, None, 0, 3])
clocks = st.one_of(
    st.none(),
    st.lists(st.integers(0, 3000), min_size=1, max_size=5, unique=True).map(
        lambda starts: WriteTimes(sorted(starts), [1.5e9 + start for start in starts])
    ),
)
cut_places = st.lists(st.integers(0, 3000), max_size=9)


def parts_of(log, cuts):
    places = sorted({0, *(min(cut, len(log)) for cut in cuts), len(log)})
    return [(log[start:end], start) for start, end in pairwise(places)]


def parsed(parts, rank, clock):
    parser = Parser()
    read = [
        record for data, offset in parts for record in parser.feed(data, rank, offset=offset, clock=clock)
    ]
    return read, parser.finish()


def grown(parts, rank, clock):
    parser, read = Parser(), []
    for data, offset in parts:
        read += table_of(parser, [(rank, data, offset)], clock)
    return read, parser.finish()


def table_of(parser, parts, clock=None):
    table = MeasurementTable()
    for rank, data, offset in parts:
        for readings in parser.file_of(rank).read(data, offset=offset, clock=clock):
            table.add(readings)
    return table


def same(log, cuts=(), rank=None, clock=None):
    parts = parts_of(log, cuts)
    assert repr(grown(parts, rank, clock)) == repr(parsed(parts, rank, clock))


@given(logs, cut_places, ranks, clocks)
def test_any_parts_of_a_growing_log_give_the_parsers_records(log, cuts, rank, clock):
    same(log, cuts, rank, clock)


def test_a_jump_in_the_file_is_that_of_its_offsets():
    log = "".join(f"{step(10 * number)}\n" for number in range(1, 60)).encode()
    cut = len(log) // 2
    parts = [(log[:cut], 1000), (log[cut:], 90_000)]
    assert repr(grown(parts, 2, None)) == repr(parsed(parts, 2, None))


def test_parts_of_several_files_are_in_the_order_of_reading():
    lines = f"{step(10)}\n{step(20)}\n".encode()
    pieces = [(0, lines, 0), (1, lines[:30], 1000), (0, lines, 2000), (1, lines[30:], 3000)]
    assert [(line.rank, line.step) for line in step_lines(table_of(Parser(), pieces))] == [
        (rank, number) for rank in (0, 0, 1) for number in (10, 20)
    ]


@pytest.mark.parametrize(
    "line", ["step {0}, loss: 0.5, images/sec: 99", "step {0}/30 loss: 0.5 images/sec: 99.5"]
)
def test_the_rate_of_a_script_is_read_as_the_benchmarks_would_be(line):
    log = "".join(f"{line.format(number)}\n" for number in range(1, 30)).encode()
    assert [record.name for record in Parser().feed(log)] == ["loss", "images_per_sec"] * 29
    same(log, cuts=(100, 333))
