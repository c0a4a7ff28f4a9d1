"""Blocks against the parser: the same records from any log, in any blocks."""

import io
import subprocess
import sys

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchai_magics.metrics import Parser, frame, read_metrics
from batchai_magics.metrics.reading.log_reader import read_table
from tests.metrics.formats.program_lines import KNOWN_LINES
from tests.metrics.log_text import HEADER, run, step, step_lines
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


def parsed(log):
    parser = Parser()
    return parser.feed(log) + parser.finish()


def by_blocks(*chunks, block_bytes=1 << 16):
    log = b"".join(chunks)
    blocks = [log[at : at + block_bytes] for at in range(0, len(log), block_bytes)]
    return list(read_table(blocks))


def same(log, **options):
    assert repr(by_blocks(log, **options)) == repr(parsed(log))


@given(logs, st.integers(1, 3000))
def test_any_log_gives_the_parsers_records_in_any_blocks(log, block_bytes):
    same(log, block_bytes=block_bytes)


@given(st.lists(plain_bits, max_size=40).map(b"".join), st.integers(0, 40))
def test_headers_and_restarts_change_nothing(log, place):
    same(log[:place] + b"\n" + HEADER.encode() + log + run(ranks=2).encode() + log)


@pytest.mark.parametrize(
    "tag", ["[1,{}]<stdout>:", "[{}]<stdout>: ", "[12345,{}]<stderr>:", "[123456789,{}]<stddiag>:"]
)
def test_each_line_has_the_rank_of_its_tag(tag):
    log = "".join(
        f"{tag.format(rank)}{step(10 * number)}\n" for number in range(1, 50) for rank in (0, 1, 12)
    )
    assert [line.rank for line in step_lines(by_blocks(log.encode()))] == [0, 1, 12] * 49
    same(log.encode())


def test_the_frame_is_that_of_the_records():
    log = "".join(
        f"[1,{n % 3}]<stdout>:{step(10 * n, 1.5 * n, accuracies=('', chr(9) + '0.125 0.500')[n % 2])}\n"
        for n in range(1, 99)
    )
    log = f"{step(1)}\n{log}"
    pd.testing.assert_frame_equal(frame(read_table([log.encode()])), frame(parsed(log.encode())))


def test_a_big_log_is_read_as_the_parser_reads_it(tmp_path):
    log = (run(ranks=2, steps=range(10, 9000, 10)) + "noise\n" * 9000).encode() * 9
    assert len(log) > 1 << 20
    (tmp_path / "log").write_bytes(log)
    expected = parsed(log)
    for source in (tmp_path / "log", log, io.BytesIO(log)):
        metrics = read_metrics(source)
        assert metrics.records == tuple(expected)
        assert len(metrics.frame()) == len(step_lines(expected))


@pytest.mark.slow
def test_reading_a_big_log_imports_no_pandas():
    code = (
        "import sys; from batchai_magics.metrics import read_metrics; read_metrics(b'x\\n' * 1_000_000);"
        "sys.exit('pandas' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
