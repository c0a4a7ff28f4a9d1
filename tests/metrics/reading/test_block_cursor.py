"""Whole lines while they are read from left to right: what stands before a place, whose it is, and when."""

import pytest

from batchai_magics.metrics.reading.block_cursor import BlockCursor
from batchai_magics.metrics.reading.parser_state import StepCadence

T = 1551522335.0  # 2019-03-02 10:25:35
TAGGED = b"[1,3]<stdout>:hello 10\n[1,4]<stdout>:more 20 30\n"


class Clock:
    """Tells of each offset when it was written."""

    def at(self, offset):
        return T + offset


def view(data, rank=None, line_end=None, **more):
    return BlockCursor(data, rank, 100, line_end, StepCadence(), **more)


def test_a_place_has_the_offset_of_its_lines_end():
    lines = view(b"a\nbc\nd")
    assert [lines.end_offset(position) for position in (0, 1, 2, 4, 5)] == [102, 102, 105, 105, 106]
    assert view(b"a\nbc", line_end=7).end_offset(0) == 7


def test_a_place_in_lines_that_were_longer_has_the_offset_of_the_raw_lines_end():
    lines = view(b"a\nbc\n", raw_ends={102: 110, 105: 120}, clock=Clock())
    assert [lines.end_offset(position) for position in (0, 1, 2, 4)] == [110, 110, 120, 120]
    assert [lines.offset_of(end) for end in (2, 5)] == [110, 120]
    assert lines.wall_time(2) == T + 120


@pytest.mark.parametrize(
    ("done", "position", "before"),
    [
        (0, 2, b"on"),
        (0, 8, b"two "),
        (2, 8, b"two "),
        (4, 8, b"two "),
        (6, 8, b"o "),
        (8, 8, b""),
        (0, 4, b""),
    ],
)
def test_what_stands_before_a_place_goes_back_to_the_last_record_on_its_line(done, position, before):
    assert view(b"one\ntwo three", consumed=done).text_before(position) == before


def test_a_tag_tells_the_rank_and_is_no_part_of_the_text():
    lines = view(TAGGED, rank=7, is_tagged=True)
    assert (lines.text_before(TAGGED.index(b"10")), lines.rank) == (b"hello ", 3)
    assert (lines.text_before(TAGGED.index(b"20")), lines.rank) == (b"more ", 4)


def test_a_tag_that_was_passed_by_tells_the_rank_of_the_next_record_too():
    lines = view(TAGGED, is_tagged=True, consumed=TAGGED.index(b" 30"))
    assert (lines.text_before(TAGGED.index(b"30")), lines.rank) == (b" ", 4)
    first = view(TAGGED, is_tagged=True, consumed=TAGGED.index(b" 10"))
    assert (first.text_before(TAGGED.index(b"10")), first.rank) == (b" ", 3)


def test_in_lines_without_tags_nothing_is_taken_for_one():
    lines = view(TAGGED, rank=7)
    assert (lines.text_before(TAGGED.index(b"10")), lines.rank) == (b"[1,3]<stdout>:hello ", 7)


def test_a_label_before_a_record_tells_its_rank_where_the_stream_has_none():
    assert view(b"").rank_at(b"hello [5]: ") == 5
    assert view(b"").rank_at(b"hello ") is None
    assert view(b"").rank_at(b"") is None
    assert view(b"", rank=0).rank_at(b"hello [5]: ") == 0


STAMPED = (
    b"2019-03-02T10:25:35+00:00 INFO step=1 step=2\nstep=3 and more of it\n2019-03-02T10:25:40+00:00 step=4\n"
)


def test_what_stands_before_a_place_begins_behind_the_last_newline():
    assert view(b"one\ntwo\nthree 3").text_before(14) == b"three "
    assert view(b"\none 1").text_before(5) == b"one "
    assert view(b"\none 1", consumed=1).text_before(5) == b"one "


@pytest.mark.parametrize("is_tagged", [True, False])
def test_the_time_of_a_line_stands_behind_its_tag_if_it_has_one(is_tagged):
    stamp = b"2019-03-02T10:25:35+00:00 "
    tag = b"[1,3]<stdout>:" if is_tagged else b""
    data = b"first\n" + tag + stamp + b"step=1\n"
    assert view(data, is_tagged=is_tagged).wall_time(data.index(b"=1")) == T
    unknown = b"[1,3]<stdout>:" + stamp + b"step=1\n"  # to lines without tags, text
    assert view(unknown).wall_time(unknown.index(b"=1")) is None


@pytest.mark.parametrize(("word", "seconds"), [(b"=1", 0), (b"=2", 0), (b"=3", None), (b"=4", 5)])
def test_a_line_tells_itself_when_it_was_printed(word, seconds):
    assert view(STAMPED).wall_time(STAMPED.index(word)) == (None if seconds is None else T + seconds)


def test_each_line_has_its_own_time_in_whatever_order_it_is_asked_for():
    lines = view(STAMPED)
    places = [STAMPED.index(word) for word in (b"=4", b"=1", b"=4", b"=2", b"=3")]
    assert [lines.wall_time(place) for place in places] == [T + 5, T, T + 5, T, None]


def test_a_line_without_a_time_has_that_of_its_tag_and_else_of_when_it_was_written():
    data = b"Sat Mar  2 10:25:35 2019[1,0]<stdout>:step=1 loss=2 and more of it\n"
    lines = view(data, is_tagged=True)
    lines.text_before(data.index(b"=1"))
    assert lines.wall_time(data.index(b"=1")) == T
    assert view(b"step=1\n", clock=Clock()).wall_time(4) == T + 107
    assert view(b"step=1\n").wall_time(4) is None
