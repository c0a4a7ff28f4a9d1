import pickle
from array import array

from batchai_magics.backends.base import Chunk, Span
from batchai_magics.jobs.log_tail import LogTail


def tail_of(*texts, max_bytes=1 << 18):
    tail = LogTail(max_bytes)
    for text in texts:
        data = text.encode()
        tail.add(Chunk(data, tail.end, tail.end + len(data), False))
    return tail


def test_added_bytes_are_the_next_piece():
    piece = tail_of("one\ntwo\n", "three\n").fragment(4, 1000, line=1)
    assert (piece.offset, piece.data, piece.skipped_lines, piece.line) == (4, b"two\nthree\n", 0, 3)


def test_whole_lines_that_do_not_fit_are_skipped_and_counted():
    tail = tail_of(*(f"line {i:03}\n" for i in range(100)))
    piece = tail.fragment(0, 25, line=0)
    assert piece.data == b"line 098\nline 099\n"
    assert (piece.offset, piece.skipped_lines, piece.line) == (98 * 9, 98, 100)
    assert tail.fragment(0, 18, line=0).offset == 98 * 9  # where a line starts
    assert tail.fragment(3, 1000, line=0).offset == 3


def test_lines_are_counted_beyond_what_is_kept():
    tail = tail_of(*("x" * 9 + "\n" for _ in range(1000)), max_bytes=100)
    piece = tail.fragment(0, 50, line=0)
    assert piece.skipped_lines + piece.data.count(b"\n") == 1000
    assert piece.end == 10_000


def test_a_line_without_end_is_cut_where_it_must():
    piece = tail_of("x" * 5000).fragment(0, 1000, line=0)
    assert (piece.offset, len(piece.data)) == (4000, 1000)


def test_known_bytes_are_added_once():
    tail = tail_of("one\ntw")
    tail.add(Chunk(b"two\n", 4, 8, False))
    assert tail.fragment(0, 100, line=0).data == b"one\ntwo\n"


def test_bytes_before_a_gap_are_dropped():
    tail = tail_of("one\n")
    tail.add(Chunk(b"te\nnext\n", 100, 108, False))
    assert (tail.start, tail.end) == (100, 108)
    assert tail.fragment(4, 1000, line=1).data == b"next\n"


def test_a_cut_file_is_as_long_as_it_is_now_and_its_lines_count_from_its_start():
    tail = tail_of(*("x" * 9 + "\n" for _ in range(100)), max_bytes=100)
    for generation in (1, 2):
        tail.add(Chunk(b"new\n", 0, 4, False), is_restarted=True)
        assert (tail.size, tail.start_line, tail.generation) == (4, 0, generation)
        piece = tail.fragment(0, 100, line=0)
        assert (piece.data, piece.line) == (b"new\n", 1)


def test_ranks_of_dropped_bytes_are_dropped():
    tail = LogTail(100)
    for start in range(0, 10_000, 10):
        tail.add(Chunk(b"x" * 9 + b"\n", start, start + 10, False, (Span(start, start + 10, start % 3),)))
    assert tail.is_shared
    assert len(pickle.dumps(tail)) < 1500


def shared_tail(*pieces, max_bytes=1 << 18):
    """A tail of pieces that each were written by one rank."""
    tail = LogTail(max_bytes)
    for rank, text in pieces:
        data, at = text.encode(), tail.end
        tail.add(Chunk(data, at, at + len(data), False, (Span(at, at + len(data), rank),)))
    return tail


def test_a_piece_has_its_writers_where_there_are_several():
    tail = shared_tail((0, "one\n"), (1, "two\n"))
    assert list(array("i", tail.ranks(tail.fragment(4, 100, line=1)))) == [0, 1]
    assert list(array("i", tail.ranks(tail.fragment(0, 100, line=0)))) == [0, 0, 4, 1]
    alone = shared_tail((0, "one\n"))
    assert (alone.is_shared, tail.is_shared) == (False, True)
    assert alone.ranks(alone.fragment(0, 100, line=0)) == b""


def test_the_first_line_that_is_kept_is_whole():
    tail = tail_of(*(f"line {n:02}\n" for n in range(20)), max_bytes=61)
    assert tail.start % 8
    assert tail.lines(100)[0] == f"line {tail.start // 8 + 1:02}"


def test_lines_gives_the_last_lines_and_the_unfinished_one():
    tail = tail_of("a\nb\nc\nd")
    assert (LogTail().lines(3), tail.lines(2)) == ((), ("b", "c", "d"))
    assert tail.lines(1) == ("c", "d")


def test_the_tail_is_cut_when_a_quarter_above_its_limit():
    assert tail_of("\n" * 100, "\n" * 24, max_bytes=100).start == 0
    tail = tail_of("\n" * 100, "\n" * 25, max_bytes=100)
    assert (tail.start, tail.start_line, tail.end) == (25, 25, 125)
    assert tail_of("\n" * 20, "\n" * 4, max_bytes=18).start == 6


def test_a_writers_bytes_are_kept_as_long_as_one_of_them_is():
    tail = LogTail(8)
    spans = (Span(0, 4, 0), Span(4, 12, 1))
    tail.add(Chunk(b"aaa\nbbb\nccc\n", 0, 12, False, spans))
    piece = tail.fragment(0, 100, line=0)
    assert (piece.data, list(array("i", tail.ranks(piece)))) == (b"ccc\n", [0, 1])
