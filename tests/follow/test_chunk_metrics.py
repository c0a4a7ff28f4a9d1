"""Which numbers are read of a piece of a log, of which rank, and when they were written."""

from __future__ import annotations

from dataclasses import replace

import pytest

from batchai_magics.backends.base import Chunk, Span, WriteTime
from batchai_magics.follow.metric_streams import MIN_COLUMN_BYTES, parse_metrics
from batchai_magics.metrics import Parser
from batchai_magics.metrics.measurement import lines_of
from batchai_magics.metrics.runs.log_records import records_in
from tests.follow.event_steps import plain_step, steps
from tests.metrics.log_text import step_lines


def test_each_part_of_a_chunk_goes_to_the_rank_that_wrote_it():
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


def test_a_look_at_much_of_a_log_tells_the_steps_of_all_its_lines(backend, follower):
    lines = [plain_step(10 * number) for number in range(1, 1000)]
    text = "".join(lines)
    assert len(text) > 2 * MIN_COLUMN_BYTES
    backend.write(text[:-7])
    seen = steps(follower.poll())
    backend.write(text[-7:])
    assert seen + steps(follower.poll()) == [(10 * number, None) for number in range(1, 1000)]


def test_records_know_when_they_were_written():
    lines = [f"{step}\timages/sec: 10.0 +/- 0.1 (jitter = 0.2)\t2.500\n".encode() for step in (1, 2)]
    times = (WriteTime(0, 1000.0), WriteTime(len(lines[0]), 1001.5))
    chunk = Chunk(b"".join(lines), 0, 99, True, (), times)
    assert [line[0].wall_time for line in lines_of(records_in(chunk, Parser({})))] == [1000.0, 1001.5]
