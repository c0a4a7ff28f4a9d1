from array import array

from batchai_magics.backends.base import Chunk, Span
from batchai_magics.jobs.log_tail import LogTail, ranks_between
from batchai_magics.widgets.job.rank_lines import (
    CHUNK_BYTES,
    MAX_SCAN_BYTES,
    PAGE_BYTES,
    RankPage,
    is_written_by,
    rank_page,
    tail_page,
)

LINE = 10


def shared(count, ranks, *, size=LINE):
    """A log of lines written in turn, as a function of offset and limit."""
    data = b"".join(b"%0*d\n" % (size - 1, i) for i in range(count))

    def read(offset, limit):
        end = min(len(data), offset + limit)
        first, last = offset // size, -(-end // size)
        spans = [Span(max(offset, i * size), min(end, (i + 1) * size), i % ranks) for i in range(first, last)]
        return Chunk(data[offset:end], offset, len(data), False, tuple(spans))

    return read


def test_the_last_lines_of_a_rank_come_first():
    page = rank_page(shared(9, 3), 1, -1, is_backward=True)
    assert page.data == b"000000001\n000000004\n000000007\n"
    assert (page.starts, page.start, page.end) == ([10, 40, 70], 0, 90)


def test_pages_of_a_rank_meet_and_hold_every_line():
    read, seen, end = shared(60_000, 4), [], -1
    while end:
        page = rank_page(read, 2, end, is_backward=True)
        assert page.data == b"".join(b"%09d\n" % (start // LINE) for start in page.starts)
        seen, end = page.starts + seen, page.start
    assert seen == [i * LINE for i in range(60_000) if i % 4 == 2]


def test_a_file_is_read_back_to_its_first_line():
    page = tail_page(shared(3, 1))
    assert (page.start, page.starts) == (0, [0, 10, 20])


def test_writer_of_a_byte_is_known_only_inside_a_span():
    spans = (Span(0, 4, 0), Span(6, 8, 0))
    assert [is_written_by(spans, at, 0) for at in (0, 3, 4, 5, 6, 8)] == [
        True,
        True,
        False,
        False,
        True,
        False,
    ]
    assert not is_written_by(spans, 0, 1)


def test_an_unfinished_line_of_a_rank_ends_where_another_rank_goes_on():
    spans = (Span(0, 1, 0), Span(1, 2, 1), Span(2, 4, 0))
    page = rank_page(
        lambda at, limit: Chunk(b"abc\n"[at : at + limit], at, 4, False, spans), 0, -1, is_backward=True
    )
    assert (page.data, page.starts) == (b"a\nc\n", [0, 2])


def test_the_tail_is_whole_lines():
    page = tail_page(shared(100_000, 2, size=7))
    assert page.data.startswith(b"0")
    assert page.starts[0] % 7 == 0
    assert page.end == 700_000


TAGGED = b"[1,0]<stdout>:a\n[1,1]<stdout>:b\nnobody's\n[node-2@1,1]<stderr>:c\n"


def test_a_tag_tells_whose_line_it_is():
    def read(offset, limit):
        return Chunk(TAGGED[offset : offset + limit], offset, len(TAGGED), True, (Span(0, len(TAGGED), 0),))

    page = rank_page(read, 1, -1, is_backward=True)
    assert page.data == b"[1,1]<stdout>:b\n[node-2@1,1]<stderr>:c\n"
    assert page.starts == [16, TAGGED.index(b"[node")]
    tail = LogTail()
    tail.add(read(0, 100))
    assert tail.is_shared


def test_ranks_of_a_range_are_given_by_offset():
    spans = (Span(0, 10, 1), Span(10, 20, 1), Span(25, 30, 0))
    pairs = array("i", ranks_between(spans, 5, 40))
    assert list(pairs) == [0, 1, 15, -1, 20, 0, 25, -1]
    assert ranks_between((), 0, 10) == b""


def log_of(data, *spans, size=None):
    """A log of these bytes, as a function of offset and limit. Who reads nothing reads it at its start."""

    def read(offset, limit):
        assert limit or not offset
        part = data[offset : offset + limit]
        return Chunk(part, offset, len(data) if size is None else size, False, spans)

    return read


def test_size_of_a_page_is_that_of_the_file():
    read = log_of(b"a\n", Span(0, 2, 0))
    assert rank_page(read, 0, -1, is_backward=True).size == 2
    assert tail_page(read).size == 2


def test_an_empty_file_has_an_empty_page():
    assert tail_page(log_of(b"")) == RankPage(0, 0, 0)
    assert tail_page(log_of(b"", size=5)) == RankPage(0, 0, 5)  # it was cut since


def test_pages_that_are_read_on_meet_and_hold_every_line():
    read, seen, at = shared(120_000, 16), [], 0
    while at < 1_200_000:
        page = rank_page(read, 2, at, is_backward=False)
        assert page.data == b"".join(b"%09d\n" % (start // LINE) for start in page.starts)
        seen, at = seen + page.starts, page.end
    assert seen == [i * LINE for i in range(120_000) if i % 16 == 2]


def test_a_page_that_is_full_to_the_byte_is_full():
    data = b"x" * (PAGE_BYTES - 1) + b"\n" + b"y" * CHUNK_BYTES + b"\n"
    read = log_of(data, Span(0, PAGE_BYTES, 0), Span(PAGE_BYTES, len(data), 1))
    assert rank_page(read, 0, 0, is_backward=False).end == PAGE_BYTES


def test_scan_for_the_lines_of_a_rank_is_limited():
    line = b"x" * (CHUNK_BYTES - 1) + b"\n"
    read = log_of(line * (MAX_SCAN_BYTES // CHUNK_BYTES + 2), Span(0, 1 << 30, 1))
    assert rank_page(read, 0, 0, is_backward=False).end == MAX_SCAN_BYTES


def test_a_line_longer_than_a_piece_is_read_in_parts():
    data = b"x" * (CHUNK_BYTES + 5) + b"\nend"
    read = log_of(data, Span(0, len(data), 0))
    assert rank_page(read, 0, 0, is_backward=False).end == CHUNK_BYTES
    page = rank_page(read, 0, CHUNK_BYTES, is_backward=False)
    assert (page.data, page.end) == (b"xxxxx\nend\n", len(data))
    long = b"x" * (2 * CHUNK_BYTES) + b"\n"
    back = rank_page(log_of(long, Span(0, len(long), 0)), 0, -1, is_backward=True)
    assert (back.end, back.start) == (len(long), len(long) - CHUNK_BYTES)


def test_a_file_of_one_byte_is_read_back():
    assert rank_page(log_of(b"a", Span(0, 1, 0)), 0, -1, is_backward=True).data == b"a\n"


def test_reading_back_from_the_start_reads_nothing():
    def read(offset, limit):
        assert not limit
        return Chunk(b"", offset, 4, False)

    assert rank_page(read, 0, 0, is_backward=True) == RankPage(0, 0, 4)


def test_a_span_that_ends_where_another_begins_gives_no_empty_line():
    page = rank_page(log_of(b"ab\n", Span(0, 0, 0), Span(0, 3, 0)), 0, -1, is_backward=True)
    assert (page.data, page.starts) == (b"ab\n", [0])


def test_ranks_are_returned_for_the_requested_range():
    spans = (Span(0, 5, 3), Span(5, 10, 1), Span(10, 15, 0), Span(15, 20, 1))
    assert list(array("i", ranks_between(spans, 5, 15))) == [0, 1, 5, 0]
    assert list(array("i", ranks_between(spans, 0, 20))) == [0, 3, 5, 1, 10, 0, 15, 1]
    assert list(array("i", ranks_between((Span(2, 4, 0),), 0, 4))) == [0, -1, 2, 0]
