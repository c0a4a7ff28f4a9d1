"""What several ranks wrote into one file in any order, cut anywhere: the records of each part by itself."""

from hypothesis import given
from hypothesis import strategies as st

from batchai_magics.backends.base import Chunk, Span, WriteTime
from batchai_magics.metrics import Parser
from batchai_magics.metrics.runs.log_records import clock_of, parts_of, records_in
from tests.metrics.log_text import step, step_lines
from tests.metrics.reading.test_shapes import logs

PLACES = st.integers(0, 3000)
RANKS = st.sampled_from([None, 0, 1, 2, 0, 1, 2])
WROTE = st.lists(st.tuples(PLACES, RANKS), max_size=30)
TIMES = st.lists(PLACES, max_size=5, unique=True).map(sorted)


def piece_of(log, begin, end, wrote, times):
    """The bytes from `begin` to `end` of a log, each written by the rank of the last place before it."""
    changes = sorted({begin: None, **dict(wrote)}.items())
    ends = [*(place for place, _ in changes[1:]), end]
    bounds = [
        (max(start, begin), min(stop, end), rank) for (start, rank), stop in zip(changes, ends, strict=True)
    ]
    spans = tuple(
        Span(start, stop, rank) for start, stop, rank in bounds if rank is not None and start < stop
    )
    return Chunk(log[begin:end], begin, end, True, spans, tuple(WriteTime(at, 1e9 + at) for at in times))


def part_by_part(piece, parser):
    for part in parts_of(piece):
        yield from parser.feed(part.data, part.rank, offset=part.offset, clock=clock_of(piece))


def read(read_piece, pieces):
    parser = Parser({"loss": r"\t(-?\d+\.\d{3})"})
    return repr(([record for piece in pieces for record in read_piece(piece, parser)], parser.finish()))


@given(logs, WROTE, TIMES, PLACES)
def test_the_records_of_ranks_in_any_order_are_those_of_each_part_in_its_turn(log, wrote, times, cut):
    cut = min(cut, len(log))
    pieces = [piece_of(log, 0, cut, wrote, times), piece_of(log, cut, len(log), wrote, times)]
    assert read(records_in, pieces) == read(part_by_part, pieces)


def test_lines_of_many_ranks_by_turns_are_fed_once_for_each_rank(monkeypatch):
    log = "".join(f"{step(10 * number)}\n" for number in range(1, 9)).encode()
    ends = [place + 1 for place, char in enumerate(log) if char == ord("\n")]
    piece = piece_of(log, 0, len(log), [(end, line % 2) for line, end in enumerate([0, *ends[:-1]])], [])
    fed, feed = [], Parser.feed
    monkeypatch.setattr(Parser, "feed", lambda *args, **at: fed.append(args[1:]) or feed(*args, **at))
    records = step_lines(records_in(piece, Parser()))
    assert [rank for data, rank in fed if data] == [0, 1]
    assert [record.offset for record in records] == ends
    assert [record.rank for record in records] == [0, 1] * 4


def test_the_parts_of_a_piece_in_the_middle_of_a_file_have_their_own_bytes_and_offsets():
    piece = Chunk(b"abcdefgh", 100, 108, True, (Span(102, 104, 1), Span(104, 106, 0)), ())
    assert [(part.data, part.offset, part.end, part.rank) for part in parts_of(piece)] == [
        (b"ab", 100, 102, None),
        (b"cd", 102, 104, 1),
        (b"ef", 104, 106, 0),
        (b"gh", 106, 108, None),
    ]
    whole = Chunk(b"ab", 100, 102, True, (Span(100, 102, 1),), ())
    assert [(part.data, part.rank) for part in parts_of(whole)] == [(b"ab", 1)]


def test_when_a_piece_was_written_is_known_where_its_times_are():
    assert clock_of(Chunk(b"ab", 100, 102, True)) is None
    clock = clock_of(Chunk(b"ab", 100, 102, True, times=(WriteTime(100, 7.0),)))
    assert clock is not None
    assert clock.at(102) == 7.0
