"""Blocks against the parser: the same records from any log, in any blocks."""

from hypothesis import given
from hypothesis import strategies as st

from batchai_magics.metrics import Parser
from batchai_magics.metrics.reading.log_reader import read_table
from tests.metrics.formats.program_lines import KNOWN_LINES
from tests.metrics.log_text import step
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
