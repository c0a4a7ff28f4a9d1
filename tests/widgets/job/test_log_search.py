import itertools
import re
from functools import partialmethod

import pytest

from batchai_magics.backends.base import Chunk, Span
from batchai_magics.errors import UsageError
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.job_model import JobModel
from batchai_magics.widgets.job.page_requests import RequestHandler
from batchai_magics.widgets.job.rank_lines import ERROR_PATTERN, SEARCH_BYTES, Search, pattern_of
from tests.widgets.scripted_job import JOB, ScriptedBackend


class File:
    def __init__(self, data, *, is_complete=True, spans=()):
        self.data, self.is_complete, self.spans = data, is_complete, spans

    def __call__(self, offset, limit):
        found = self.data[offset : offset + limit]
        return Chunk(found, offset, len(self.data), self.is_complete, self.spans)


def hits(data, query, *, is_regex=False, rank=None, spans=()):
    search = Search(File(data, spans=spans), pattern_of(query, is_regex=is_regex), rank=rank)
    while not search.is_complete or not search.size:
        search.advance()
        if not data:
            break
    return [int(hit) for hit in search.hits]


def test_a_loop_within_a_loop_is_searched_and_does_not_hang():
    data = b"\x1b[31m" + b"a" * 60 + b"\x1b[0mb\n" + b"b" + b"a" * 60 + b"\n"
    assert hits(data, "(a+)+$", is_regex=True) == [data.index(b"ba", 1)]


def test_every_line_of_a_long_file_is_found_once():
    data = b"".join(b"line %07d of many\n" % i for i in range(200_000))
    assert len(hits(data, "line")) == 200_000
    assert hits(data, "0199999 of") == [199_999 * 21]


def test_capitals_count_only_in_plain_text_that_has_some():
    data = b"error\nError\nERROR\n"
    assert hits(data, "error") == [0, 6, 12]
    assert hits(data, "Error") == [6]
    assert hits(data, "Err.r", is_regex=True) == [0, 6, 12]


def test_a_match_never_runs_over_the_end_of_its_line():
    data = b"a 1\n2 b\na 3 b\n"
    assert hits(data, r"a[^x]*b", is_regex=True) == [8]
    assert hits(data, r"\d\s", is_regex=True) == [4, 8]


def test_a_pattern_that_matches_nothing_too_finds_only_something():
    assert hits(b"b\naa\nb\n", "a*", is_regex=True) == [2]


def test_what_the_reader_sees_is_searched_not_its_colours():
    data = b"\x1b[31mre\x1b[0md\n10%\r100%\n"
    assert hits(data, "red") == [0]
    assert hits(data, "^10%", is_regex=True) == []
    assert hits(data, "100%") == [13]


def test_the_lines_of_one_rank_are_searched_alone():
    spans = (Span(0, 2, 0), Span(2, 4, 1), Span(4, 6, 0))
    assert hits(b"x\nx\nx\n", "x", rank=0, spans=spans) == [0, 4]


def test_search_continues_with_lines_that_have_ended_since():
    file = File(b"one\ntw", is_complete=False)
    search = Search(file, re.compile(b"o"))
    search.advance()
    assert (list(search.hits), search.is_complete) == ([0], True)
    file.data += b"o\n"
    search.advance()
    assert list(search.hits) == [0, 4]


def test_a_file_that_starts_again_is_searched_again():
    file = File(b"one\ntwo\n", is_complete=False)
    search = Search(file, re.compile(b"o"))
    search.advance()
    file.data = b"no\n"
    search.advance()
    assert list(search.hits) == [0]


def test_a_search_for_the_first_match_looks_no_further_than_its_piece():
    search = Search(File(b"x\n" * (1 << 21)), re.compile(b"x"))
    search.advance(limit=1, clock=lambda: 0.0)
    assert search.scanned == 1 << 20


def test_the_last_line_is_searched_without_its_end_once_the_file_is_complete():
    assert hits(b"one\ntwo", "two") == [4]


def test_a_line_longer_than_a_piece_is_searched_piece_by_piece():
    data = b"x" * (3 << 20) + b" end\n"
    assert len(hits(data, "end")) == 1


def test_a_search_stops_when_its_time_is_over():
    search = Search(File(b"x\n" * (1 << 21)), re.compile(b"nothing"))
    times = iter([0.0, 0.1, 0.3])
    search.advance(clock=lambda: next(times))
    assert (search.scanned, search.is_complete) == (1 << 20, False)


@pytest.mark.parametrize("query", ["(", r"(a+)+\1", "a{9999}"])
def test_an_expression_that_cannot_work_is_refused(query):
    with pytest.raises(UsageError, match="not a valid expression"):
        pattern_of(query, is_regex=True)


@pytest.mark.parametrize(
    "line", [b"Traceback (most recent call last):", b"ValueError: x", b"E: out of memory"]
)
def test_an_error_is_known_by_its_look(line):
    assert hits(b"errors=0\nfine\n" + line + b"\n", ERROR_PATTERN, is_regex=True) == [14]


def test_the_first_error_of_a_long_log_is_found_on_a_slow_machine(tmp_path, monkeypatch):
    slow = itertools.count(step=0.15).__next__  # a request has time for one piece
    monkeypatch.setattr(Search, "advance", partialmethod(Search.advance, clock=slow))
    backend = ScriptedBackend(tmp_path)
    backend.write("all is well\n" * (3 * SEARCH_BYTES // 12) + "ValueError: x\n")
    handler, question = RequestHandler(Job(backend, JOB), JobModel()), {"kind": "first_error", "id": "q"}
    for _ in range(2):  # who asks again is told again
        told = [handler.handle({**question, "file": "stdout.txt", "rank": None}).content for _ in range(4)]
        assert [each["complete"] for each in told[:-1]] == [False] * 3
        assert [each["offset"] for each in told] == [None] * 3 + [3 * SEARCH_BYTES // 12 * 12]
