"""Blocks of lines before they are read at once: what is taken out."""

import pytest

from batchai_magics.metrics.reading.line_prefixes import TagShapes, clean_lines

RED, PLAIN = b"\x1b[31m", b"\x1b[0m"
TAG, OTHER = b"[1,0]<stdout>:", b"[1,1]<stderr>:"


def cleaned(lines, *, is_tagged=True):
    return clean_lines(lines, TagShapes(), is_tagged=is_tagged)


def test_lines_without_tags_and_controls_stay_as_they_are():
    assert cleaned(b"a\nb\n", is_tagged=False) == b"a\nb\n"


def test_controls_are_taken_out():
    assert cleaned(RED + b"a" + PLAIN + b"\n\0b\b\n", is_tagged=False) == b"a\nb\n"


def test_lines_with_a_tag_each_are_read_at_once():
    assert cleaned(TAG + b"a\n" + OTHER + b"b\n") == TAG + b"a\n" + OTHER + b"b\n"


def test_controls_behind_tags_are_taken_out():
    assert cleaned(TAG + RED + b"a\n") == TAG + b"a\n"


@pytest.mark.parametrize("lines", [b"a\n", TAG + b"a\nb\n", TAG + b"a" + OTHER + b"b\n"])
def test_lines_of_which_one_has_no_tag_or_two_are_read_singly(lines):
    assert cleaned(lines) is None


def test_a_tag_that_comes_about_by_what_is_taken_out_is_read_singly():
    lines = TAG + b"a\n[1,\x001]<stderr>:b<st\0dout>\n"
    assert cleaned(lines) is None
    assert cleaned(lines, is_tagged=False) is None


def test_a_tag_that_is_repeated_at_the_end_of_its_line_is_taken_out():
    lines = TAG + b"a" + TAG + b"\n" + OTHER + b"b" + OTHER + b"\n"
    assert cleaned(lines) == TAG + b"a\n" + OTHER + b"b\n"


def test_a_tag_at_the_end_stays_where_lines_are_not_tagged():
    lines = TAG + b"a" + TAG + b"\n"
    assert cleaned(lines, is_tagged=False) == lines


@pytest.mark.parametrize(
    "lines",
    [
        TAG + b"a" + OTHER + b"\n",  # of another rank
        TAG + b"a" + TAG + b".\n",  # not at its end
        TAG + b"a" + TAG + b"\n" + OTHER + b"b" + TAG + b"\n",  # one of two
        b"x" + TAG + b"a" + b"x" + TAG + b"\n",  # more than a tag
        b"[1,0]<stdlog>:a[1,0]<stdlog>:\n",  # no tag
        b"[prterun-node-7@1,0]<stdout>:a[prterun-node-7@1,0]<stdout>:\n",  # a tag that names its job
        b"[1,0]<stdout>" + b"a" + b"[1,0]<stdout>" + b"\n",  # a cut one
    ],
)
def test_what_only_looks_like_a_tag_that_repeats_itself_is_read_singly(lines):
    assert cleaned(lines) is None


@pytest.mark.parametrize(
    "tag", [b"[0]<stdout>:", b"[12,345678]<stderr>:", b"[123456789012345678,1]<stddiag>:"]
)
def test_each_kind_of_tag_may_be_repeated(tag):
    assert cleaned(tag + b"a" + tag + b"\n") == tag + b"a\n"


def test_a_tag_is_repeated_on_some_lines_alone():
    assert cleaned(TAG + b"a" + TAG + b"\n" + OTHER + b"b\n") == TAG + b"a\n" + OTHER + b"b\n"
