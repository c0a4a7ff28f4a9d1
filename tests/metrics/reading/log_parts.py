"""Logs of every kind, the parts in which they may be read, and the records that both ways of reading give."""

from itertools import pairwise

from hypothesis import strategies as st

from batchai_magics.metrics import Parser
from batchai_magics.metrics.measurement_table import MeasurementTable
from batchai_magics.metrics.timestamps import WriteTimes
from tests.metrics.log_text import HEADER, step, total
from tests.metrics.program_samples import NEAR_MISSES
from tests.metrics.reading.program_lines import KNOWN_LINES
from tests.metrics.shapes import SHAPES, lines_in

PATTERNS = {"loss": r"\t(-?\d+\.\d{3})", "step": r"^(?P<step>\d+)\s+(?P<value>\S+)"}
rates = st.floats(0, 1e6, allow_nan=False)
losses = st.one_of(st.sampled_from(["nan", "inf", "-inf"]), st.floats(-1e9, 1e30).map("{:.3f}".format))
accuracies = st.sampled_from(["", "", "\t0.125\t0.500", "\tnan\tnan"])
numbers = st.one_of(st.integers(0, 9999), st.sampled_from([0, 1, 10, 9_999_999, 10_000_000, 10**17, 10**19]))
steps = st.builds(step, numbers, rates, losses, accuracies)
ODDITIES = [
    *("Step\tImg/sec\ttotal_loss", "3", "10\t412.7 examples/sec", "total images/sec: 1.234", "noise", ""),
    *("images/sec: 105.6 +/- 1.0 (jitter = 1.0)\t7.0", "Total images/sec: 1134.505", "version 3"),
    "10\timages/sec: 1.5 +/- .5 (jitter = 1.0)\t7.000",
    "10\timages/sec: 12345678.5 +/- 0.5 (jitter = 1.0)\t7.000",
    "10  images/sec: 1.5 +/- 0.5 (jitter = 1.0)  7.000",
    "10 images/sec: 1.5 +/- 0.5 (jitter = 1.0) 7.000 0.5 0.5",
    "10\timages/sec: 1.5 +/- 0.5 (jitter = 1.0)\t7.427 1587077440",
    "10\timages/sec: 1.5 +/- 0.5 (jitter = 1.0)\t7.427\t0.125\t0.500 1587077440.5",
    "10\timages/sec: 1.5 +/- 0.5 (jitter = 1.0)\t7.000 0.500 nan",
    "10\timages/sec: 1.5 +/- 0.5 (jitter = 1.0)\t7.00",
    *("2018-06-12 10:00:00.000001: I tensorflow/core/x.cc:1] hello", "warning <stdout>: of [1,2]<stdout>"),
    *("[1,2]<stdout>:", "ima\x1b[0mges/sec: ", "12345678[1,2]<stdout>:", f"{step(10)}{step(20)}"),
    *("Done warm up" + step(10), f"0{step(10)}", step(10)[2:], step(10)[:40], total(5.25)),
]
lines = st.one_of(
    steps,
    st.sampled_from(KNOWN_LINES),
    st.sampled_from([*ODDITIES, *NEAR_MISSES, HEADER, *HEADER.splitlines()]),
)

tags = st.sampled_from(
    [
        *(
            "",
            "[1,0]<stdout>:",
            "[1,1]<stderr>: ",
            "[2] ",
            "3: ",
            "<stdout>:",
            "# ",
            "2019-03-02T10:25:35.25Z ",
        ),
        *("Sat Nov 21 00:19:42 2026[1,6]<stdout>:", "Sat Nov 21 00:19:43 2026[1,1]<stdout>:"),
    ]
)
ends = st.sampled_from(
    [*["\n"] * 6, "\r\n", "\r", "", "\n\n", " \n", "\x1b[0m\n", "\0", "\b\b", "\t", "[1,1]<stdout>:\n"]
)
junk = st.sampled_from([b""] * 9 + [b"\xff\xfe\xc3("]) | st.binary(max_size=20) | st.just(b"x" * 70_000)
bits = st.tuples(junk, tags, lines, ends).map(lambda bit: bit[0] + "".join(bit[1:]).encode())


def joined(parts):
    return parts.map(lambda texts: "".join(texts).encode())


usual = st.one_of(steps, steps, steps.map(lambda line: line.replace("\t", "   ")), lines)
in_one_shape = st.sampled_from(sorted(SHAPES)).flatmap(
    lambda shape: st.lists(lines_in(st.just(shape), usual), max_size=20)
)
in_any_shape = st.lists(lines_in(st.sampled_from(sorted(SHAPES)), usual), max_size=20)

LABELS = ("[rank3]:", "[default3]:", "3: ", "[3] ", "[gpu01:3/8] ", "(3/8) ", "[1,3]<stdout>:")


def bar(done):
    return f"Epoch 1: {done}0%|##   | {done}/10 [00:0{done}<00:09,  1.00it/s, loss=0.{done}]"


returns = st.one_of(
    st.sampled_from(LABELS),
    st.sampled_from(["\r", "\r", "\r", "\n", "\r\n", " ", "\x1b[A", "[1,1]<stdout>:", "text"]),
    st.integers(1, 9).map(bar),
    st.just(step(10)),
)

PREFIXES = (
    "[1,{}]<stdout>:",
    "[rank{}]: ",
    "[default{}]:",
    "{}: ",
    "2026-03-02T10:25:35Z [rank{}]: ",
    "[{}] ",
)
MEMBER = "  - loss: 0.5"
TOLD = "step 1: loss 2.5"  # beside which a bare number in front is a rank
TEXTS = (
    *("Epoch {}/9", "Validation results:", MEMBER, "accuracy: 0.25", "val_loss: 0.25", "-" * 12, "", TOLD),
    *("words", "words\n" * 40),
)
turns = st.tuples(st.integers(0, 2), st.sampled_from(TEXTS), st.integers(1, 9))


def log_of(prefix, *turns):
    """Lines of ranks, each behind the prefix."""
    return "".join(f"{prefix.format(rank)}{text}\n" for rank, text in turns).encode()


headings = st.builds(
    lambda prefixes, turns: b"".join(
        log_of(prefixes[place % len(prefixes)], *[(rank, line) for line in text.format(number).split("\n")])
        for place, (rank, text, number) in enumerate(turns)
    ),
    st.sampled_from([[prefix] for prefix in PREFIXES]) | st.permutations([*PREFIXES, ""]),
    st.lists(turns, max_size=60),
)

LOGS = {
    "any bytes": st.lists(bits, max_size=12).map(b"".join),
    "what launchers pass on": joined(
        st.lists(in_one_shape | in_any_shape, max_size=4).map(
            lambda parts: [line for part in parts for line in part]
        )
    ),
    "bars": joined(st.lists(returns, max_size=40)),
    "blocks of processes": headings,
}
ranks = st.sampled_from([None, None, 0, 3])
clocks = st.one_of(
    st.none(),
    st.lists(st.integers(0, 3000), min_size=1, max_size=5, unique=True).map(
        lambda starts: WriteTimes(sorted(starts), [1.5e9 + start for start in starts])
    ),
)


def parsed(log, rank=None, clock=None, patterns=None):
    """The records of a log that is read as a whole."""
    parser = Parser(patterns or {})
    return parser.feed(log, rank, offset=0, clock=clock) + parser.finish()


def table_of(parser, parts, clock=None):
    """The columns that parts of files give, each of a rank and with its place in its file."""
    table = MeasurementTable()
    for rank, data, offset in parts:
        for block in parser.file_of(rank).read(data, offset=offset, clock=clock):
            table.extend(block)
    return table


def places_of(log, cuts):
    """Where a log is cut: at these places, at each `line`, or at each `byte`."""
    if cuts == "byte" and len(log) < 5000:
        cuts = range(len(log))
    elif isinstance(cuts, str):
        cuts = [place + 1 for place, byte in enumerate(log) if byte == ord("\n")]
    return sorted({0, *(min(cut, len(log)) for cut in cuts), len(log)})


def grown(log, cuts=(), rank=None, clock=None, patterns=None):
    """The records of a file that comes in parts, read as a file and as what is fed."""
    file_parser, parser = Parser(patterns or {}), Parser(patterns or {})
    parts = [(rank, log[start:end], start) for start, end in pairwise(places_of(log, cuts))]
    read = [*table_of(file_parser, parts, clock), *file_parser.finish()]
    fed = [record for _, data, at in parts for record in parser.feed(data, rank, offset=at, clock=clock)]
    assert repr(fed + parser.finish()) == repr(read)
    return read


def same(log, cuts=(), rank=None, clock=None, patterns=None):
    assert repr(grown(log, cuts, rank, clock, patterns)) == repr(parsed(log, rank, clock, patterns))
