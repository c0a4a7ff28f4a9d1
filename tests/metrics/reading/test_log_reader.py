"""One reader: any parts of a file give, as columns, the records of the file as a whole."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchai_magics.metrics import Parser
from batchai_magics.metrics.measurement_table import MeasurementTable
from batchai_magics.metrics.reading.timestamps import WriteTimes
from tests.metrics.log_text import measurements, step, step_lines
from tests.metrics.reading.program_lines import KNOWN_LINES
from tests.metrics.reading.test_any_bytes import bits, losses, rates, tags

numbers = st.one_of(st.integers(1, 9999), st.sampled_from([0, 1, 10, 9_999_999, 10_000_000, 10**17, 10**19]))
oddities = st.sampled_from(
    [
        "images/sec: 105.6 +/- 1.0 (jitter = 1.0)\t7.0",
        "Total images/sec: 1134.505",
        "10\timages/sec: 1.5 +/- .5 (jitter = 1.0)\t7.000",
        "10\timages/sec: 12345678.5 +/- 0.5 (jitter = 1.0)\t7.000",
        "10  images/sec: 1.5 +/- 0.5 (jitter = 1.0)  7.000",
        "10 images/sec: 1.5 +/- 0.5 (jitter = 1.0) 7.000 0.5 0.5",
        "10\timages/sec: 1.5 +/- 0.5 (jitter = 1.0)\t7.427 1587077440",
        "10\timages/sec: 1.5 +/- 0.5 (jitter = 1.0)\t7.427\t0.125\t0.500 1587077440.5",
        "10\timages/sec: 1.5 +/- 0.5 (jitter = 1.0)\t7.000 0.500 nan",
        "10\timages/sec: 1.5 +/- 0.5 (jitter = 1.0)\t7.00",
        "2018-06-12 10:00:00.000001: I tensorflow/core/x.cc:1] hello",
        "warning <stdout>: of [1,2]<stdout>",
        "[1,2]<stdout>:",
        "ima\x1b[0mges/sec: ",
        "Precision @ 1 = 0.1000 recall @ 5 = 0.5000 [500 examples]",
        "12345678[1,2]<stdout>:",
    ]
)
samples = st.sampled_from(KNOWN_LINES)
lines = st.one_of(
    samples,
    st.builds(step, numbers, rates, losses, st.sampled_from(["", "", "\t0.125\t0.500", "\tnan\tnan"])),
    st.builds(step, numbers),
    oddities,
)
ends = st.sampled_from(["\n"] * 6 + ["\r\n", "", "\r", " \n", "[1,1]<stdout>:\n"])
plain_bits = st.builds(lambda tag, line, end: f"{tag}{line}{end}".encode(), tags, lines, ends)
logs = st.lists(st.one_of(plain_bits, plain_bits, bits), max_size=30).map(b"".join)


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


def parsed(log, rank=None, clock=None):
    parser = Parser()
    return parser.feed(log, rank, offset=0, clock=clock) + parser.finish()


def table_of(parser, parts, clock=None):
    """The columns that parts of files give, each of a rank and with its place in its file."""
    table = MeasurementTable()
    for rank, data, offset in parts:
        for block in parser.file_of(rank).read(data, offset=offset, clock=clock):
            table.extend(block)
    return table


def grown(log, cuts=(), rank=None, clock=None):
    """The records of a file that comes in parts."""
    parser = Parser()
    read = table_of(parser, [(rank, data, offset) for data, offset in parts_of(log, cuts)], clock)
    return [*read, *parser.finish()]


def same(log, cuts=(), rank=None, clock=None):
    assert repr(grown(log, cuts, rank, clock)) == repr(parsed(log, rank, clock))


@given(logs, cut_places, ranks, clocks)
def test_any_parts_of_a_log_give_the_records_of_the_whole(log, cuts, rank, clock):
    same(log, cuts, rank, clock)


def test_a_jump_in_the_file_is_that_of_its_offsets():
    log = "".join(f"{step(10 * number)}\n" for number in range(1, 60)).encode()
    line_bytes = len(step(10)) + 1
    cut = 3 * line_bytes
    records = step_lines(table_of(Parser(), [(2, log[:cut], 1000), (2, log[cut:], 90_000)]))
    assert [record.offset for record in records][2:4] == [1000 + cut, 90_000 + line_bytes]


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
    assert [record.name for record in measurements(Parser().feed(log))] == ["loss", "images_per_sec"] * 29
    same(log, cuts=(100, 333))
