from batchai_magics.backends.base import Chunk, Span
from batchai_magics.widgets.job.tail import Tail


def tail_of(*texts, kept_bytes=1 << 18):
    tail = Tail(kept_bytes)
    for text in texts:
        data = text.encode()
        tail.add(Chunk(data, tail.end, tail.end + len(data), False))
    return tail


def test_a_piece_is_what_is_new():
    piece = tail_of("one\ntwo\n", "three\n").piece(4, 1000, line=1)
    assert (piece.offset, piece.data, piece.skipped_lines, piece.line) == (4, b"two\nthree\n", 0, 3)


def test_what_does_not_fit_is_skipped_by_whole_lines_and_counted():
    tail = tail_of(*(f"line {i:03}\n" for i in range(100)))
    piece = tail.piece(0, 25, line=0)
    assert piece.data == b"line 098\nline 099\n"
    assert (piece.offset, piece.skipped_lines, piece.line) == (98 * 9, 98, 100)


def test_lines_are_counted_beyond_what_is_kept():
    tail = tail_of(*("x" * 9 + "\n" for _ in range(1000)), kept_bytes=100)
    piece = tail.piece(0, 50, line=0)
    assert piece.skipped_lines + piece.data.count(b"\n") == 1000
    assert piece.end == 10_000


def test_a_line_without_end_is_cut_where_it_must():
    piece = tail_of("x" * 5000).piece(0, 1000, line=0)
    assert (piece.offset, len(piece.data)) == (4000, 1000)


def test_a_piece_from_where_a_line_starts_loses_none():
    tail = tail_of("".join(f"line {i:03}\n" for i in range(100)))
    piece = tail.piece(0, 18, line=0)
    assert (piece.offset, piece.skipped_lines) == (98 * 9, 98)
    assert tail.piece(3, 1000, line=0).offset == 3


def test_bytes_that_are_known_are_not_taken_twice():
    tail = tail_of("one\ntw")
    tail.add(Chunk(b"two\n", 4, 8, False))
    assert tail.piece(0, 100, line=0).data == b"one\ntwo\n"


def test_what_lies_before_a_hole_is_forgotten():
    tail = tail_of("one\n")
    tail.add(Chunk(b"te\nnext\n", 100, 108, False))
    assert (tail.start, tail.end) == (100, 108)
    assert tail.piece(4, 1000, line=1).data == b"next\n"


def test_a_cut_file_is_as_long_as_it_is_now_and_its_lines_count_from_its_start():
    tail = tail_of(*("x" * 9 + "\n" for _ in range(100)), kept_bytes=100)
    tail.add(Chunk(b"new\n", 0, 4, False), is_restarted=True)
    assert (tail.size, tail.start_line, tail.piece(0, 100, line=0).line) == (4, 0, 1)


def test_the_writers_of_what_is_forgotten_are_forgotten():
    tail = Tail(100)
    for i in range(1000):
        tail.add(Chunk(b"x" * 9 + b"\n", i * 10, i * 10 + 10, False, (Span(i * 10, i * 10 + 10, i % 2),)))
    assert len(tail._spans) <= 13


def test_a_file_that_was_cut_starts_again():
    tail = tail_of("old\n")
    tail.add(Chunk(b"new\n", 0, 4, False), is_restarted=True)
    assert (tail.generation, tail.piece(0, 100, line=0).data) == (1, b"new\n")


def test_the_lines_of_one_rank_are_told_apart():
    tail = Tail()
    spans = (Span(0, 2, 0), Span(2, 4, 1), Span(4, 6, 0))
    tail.add(Chunk(b"a\nb\nc\n", 0, 6, False, spans))
    assert tail.lines(5, rank=0) == ("a", "c", "")
    assert tail.lines(5) == ("a", "b", "c", "")
