"""Properties: chunking never matters, interleaving keeps each rank's series, no input raises."""

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from batchai_magics.metrics import Parser
from batchai_magics.metrics.reading.line_splitter import MAX_LINE_BYTES
from tests.metrics.log_text import HEADER, step, step_lines, total
from tests.metrics.program_samples import NEAR_MISSES
from tests.metrics.reading.program_lines import KNOWN_LINES

rates = st.floats(0, 1e6, allow_nan=False)
losses = st.one_of(st.sampled_from(["nan", "inf", "-inf"]), st.floats(-1e9, 1e30).map("{:.3f}".format))
accuracies = st.sampled_from(["", "\t0.125\t0.500", "\tnan\tnan"])
some_step_lines = st.builds(step, st.integers(0, 10**6), rates, losses, accuracies)
texts = st.one_of(
    some_step_lines,
    st.builds(total, rates),
    st.sampled_from(
        [*HEADER.splitlines(), HEADER, "Step\tImg/sec\ttotal_loss", "3", "10\t412.7 examples/sec"]
    ),
    st.sampled_from(
        ["Accuracy @ 1 = 0.1234 Accuracy @ 5 = 0.5678 [500 examples]", "total images/sec: 1.234"]
    ),
    st.sampled_from(KNOWN_LINES),
    st.sampled_from(NEAR_MISSES),
)
tags = st.sampled_from(
    [
        "",
        "[1,0]<stdout>:",
        "[1,1]<stderr>: ",
        "[2] ",
        "3: ",
        "Sat Nov 21 00:19:42 2026[1,6]<stdout>:",
        "<stdout>:",
        "2019-03-02T10:25:35.25Z ",
        "# ",
    ]
)
ends = st.sampled_from(["\n", "\r\n", "\r", "", "\n\n", "\x1b[0m\n", "\0", "\b\b", "\t", " "])
junk = st.one_of(st.just(b""), st.binary(max_size=20), st.just(b"\xff\xfe\xc3("), st.just(b"x" * 70_000))
bits = st.tuples(junk, tags, texts, ends).map(lambda t: t[0] + "".join(t[1:]).encode())
logs = st.lists(bits, max_size=12).map(b"".join)


def read(*chunks, patterns={}):  # noqa: B006 - never changed
    parser = Parser(patterns)
    return repr([r for chunk in chunks for r in parser.feed(chunk)] + parser.finish())


@given(logs.filter(lambda log: len(log) < 5000))
def test_single_bytes_give_the_records_of_one_chunk(log):
    assert read(*(log[i : i + 1] for i in range(len(log)))) == read(log)


@given(logs, st.integers(1, 100_000))
def test_user_patterns_find_the_same_in_any_chunking(log, size):
    patterns = {"loss": r"\t(-?\d+\.\d{3})", "step": r"^(?P<step>\d+)\s+(?P<value>\S+)"}
    size = max(size, len(log) // 500 + 1)  # hundreds of pieces show what thousands do
    chunks = [log[i : i + size] for i in range(0, len(log), size)]
    assert read(*chunks, patterns=patterns) == read(log, patterns=patterns)


@given(st.binary(max_size=3000), st.binary(max_size=3000))
def test_no_bytes_raise(head, tail):
    read(head, tail, patterns={"any": r"(\S+)"})


@given(
    st.lists(st.lists(st.tuples(st.integers(1, 999), losses), max_size=8), min_size=1, max_size=4),
    st.randoms(),
)
def test_any_interleaving_of_whole_lines_keeps_each_ranks_series(series, random):
    order = [rank for rank, lines in enumerate(series) for _ in lines]
    random.shuffle(order)
    rest = [iter(lines) for lines in series]
    log = "".join(
        f"[1,{rank}]<stdout>:{step(number, 1.0, loss)}\n"
        for rank in order
        for number, loss in [next(rest[rank])]
    )
    records = step_lines(Parser().feed(log.encode()))
    for rank, lines in enumerate(series):
        assert repr([(r.step, r.loss) for r in records if r.rank == rank]) == repr(
            [(n, float(x)) for n, x in lines]
        )


@given(st.lists(some_step_lines.filter(lambda line: not line.startswith("0\t")), max_size=30))
def test_glued_lines_give_as_many_records_as_whole_ones(lines):
    def shown(log):
        return [
            (r.images_per_sec, repr(r.loss), repr(r.top_5)) for r in step_lines(Parser().feed(log.encode()))
        ]

    assert shown("".join(lines) + "\n") == shown("".join(f"{line}\n" for line in lines))


def test_a_stream_without_newlines_costs_no_memory():
    parser = Parser()
    parser.feed(b"x")  # what has to be imported is imported
    tracemalloc.start()
    try:
        for _ in range(200):
            parser.feed(b"x" * 50_000)
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept_bytes <= 8 * MAX_LINE_BYTES  # of 10 MB


def test_a_line_of_10_mb_hides_nothing_around_it():
    log = f"{step(1)}\n{'7' * 10_000_000}\n{step(10)}\n".encode()
    assert [r.step for r in step_lines(Parser().feed(log))] == [1, 10]


def test_an_overlong_line_is_never_cut_within_a_step_number():
    line = ("x" * 100 + step(123_450)).encode() * 2000
    records = Parser().feed(line + b"\n")
    assert {r.step for r in records} == {123_450}
    assert len(records) > 1900


def test_nothing_at_all_is_read_as_nothing():
    parser = Parser()
    assert parser.feed(b"") == parser.finish() == []
