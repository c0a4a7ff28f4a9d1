"""What several ranks wrote into one file in any order, cut anywhere: the records of each part by itself."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchai_magics.backends.base import Chunk, Span, WriteTime
from batchai_magics.follow.metric_streams import MIN_COLUMN_BYTES, parse_metrics
from batchai_magics.metrics import Parser
from batchai_magics.metrics.measurement import lines_of
from batchai_magics.metrics.runs.log_records import clock_of, parts_of, records_in
from tests.follow.event_steps import plain_step
from tests.metrics.log_text import step_lines
from tests.metrics.reading.log_parts import LOGS

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


@given(LOGS["what launchers pass on"], WROTE, TIMES, PLACES)
def test_records_of_ranks_do_not_depend_on_their_order(log, wrote, times, cut):
    cut = min(cut, len(log))
    pieces = [piece_of(log, 0, cut, wrote, times), piece_of(log, cut, len(log), wrote, times)]
    assert read(records_in, pieces) == read(part_by_part, pieces)


def test_each_part_of_a_chunk_is_assigned_to_the_rank_that_wrote_it():
    lines = [f"{step}\timages/sec: 10.0 +/- 0.1 (jitter = 0.2)\t2.500\n".encode() for step in (1, 2, 3, 4)]
    size = len(lines[0])
    spans = (Span(100, 100 + size, 3), Span(100 + 2 * size, 100 + 3 * size, 0))
    chunk = Chunk(b"".join(lines), 100, 100 + 4 * size, True, spans)
    records = step_lines(records_in(chunk, Parser({})))
    assert [(r.step, r.rank) for r in records] == [(1, 3), (2, None), (3, 0), (4, None)]
    assert [r.offset for r in records] == [100 + number * size for number in (1, 2, 3, 4)]


@pytest.mark.parametrize("count", [200, 500], ids=["few lines of each at a time", "many of each"])
def test_many_lines_of_several_ranks_give_the_records_of_each_line_by_itself(count):
    pieces = [(rank, "".join(plain_step(10 * number) for number in range(1, count))) for rank in (3, 0, 3, 0)]
    assert (len(pieces[0][1]) >= MIN_COLUMN_BYTES) == (count > 200)
    spans, times, end = [], [], 100
    for rank, text in pieces:
        spans.append(Span(end, end + len(text), rank))
        times.append(WriteTime(end + 5, 1000.0 + end))
        end += len(text)
    data = "".join(text for _, text in pieces).encode()
    chunk = Chunk(data, 100, end, True, (*spans[:2], spans[3]), tuple(times))
    records = parse_metrics(chunk, Parser())
    assert repr(list(records)) == repr(list(records_in(chunk, Parser())))
    assert not isinstance(records, tuple)
    assert isinstance(parse_metrics(replace(chunk, data=data[:500], spans=()), Parser()), tuple)


def test_records_have_their_write_times():
    lines = [f"{step}\timages/sec: 10.0 +/- 0.1 (jitter = 0.2)\t2.500\n".encode() for step in (1, 2)]
    times = (WriteTime(0, 1000.0), WriteTime(len(lines[0]), 1001.5))
    chunk = Chunk(b"".join(lines), 0, 99, True, (), times)
    assert [line[0].wall_time for line in lines_of(records_in(chunk, Parser({})))] == [1000.0, 1001.5]
