"""What each look at a job tells of its logs: every byte once, also where they are cut or replaced."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from batchai_magics.backends.base import FileRef, Seal
from batchai_magics.follow import (
    Follower,
    LogFault,
    MetricMismatched,
    MetricsAdded,
    StateChanged,
)
from batchai_magics.follow.log_follower import MAX_CHUNKS
from batchai_magics.models.job_execution import FileKind, OutputFile
from tests.follow.event_steps import STDOUT, cut, log, plain_step, states, steps
from tests.widgets.scripted_job import JOB, step_line


def test_new_bytes_are_reported_once(backend, follower):
    backend.write("one\n")
    assert log(follower.poll()) == [("stdout.txt", b"one\n", False)]
    backend.write("two\n")
    assert log(follower.poll()) == [("stdout.txt", b"two\n", False)]
    assert follower.poll() == []


def test_the_last_bytes_come_before_the_final_state(backend, follower):
    backend.write("last\n")
    backend.finish()
    *_, before, last = follower.poll()
    assert log([before]) == [("stdout.txt", b"last\n", False)]
    assert states([last]) == ["succeeded"]


def test_the_numbers_of_an_unended_last_line_come_before_the_final_state(backend, follower):
    backend.write(step_line(10) + step_line(20, rank=1).removesuffix("\n"))
    assert steps(follower.poll()) == [(10, 0)]
    backend.finish()
    *_, before, last = follower.poll()
    assert steps([before]) == [(20, 1)]
    assert states([last]) == ["succeeded"]


def test_a_poll_of_a_long_log_gives_the_steps_of_all_its_lines(backend, follower):
    text = "".join(plain_step(10 * number) for number in range(1, 1000))
    backend.write(text[:-7])
    seen = steps(follower.poll())
    backend.write(text[-7:])
    assert seen + steps(follower.poll()) == [(10 * number, None) for number in range(1, 1000)]


def test_a_truncated_log_is_read_again_without_its_unfinished_line(backend, follower):
    backend.write(plain_step(10) + "1")
    follower.poll()
    cut(backend, "")
    assert log(follower.poll()) == [("stdout.txt", b"", True)]
    assert follower.poll() == []
    backend.write(plain_step(10) + "1")
    follower.poll()
    cut(backend, plain_step(3))
    news = follower.poll()
    assert log(news) == [("stdout.txt", plain_step(3).encode(), True)]
    assert steps(news) == [(3, None)]


def test_a_restarted_parser_knows_the_patterns_of_the_user(backend):
    follower = Follower(backend, JOB, patterns={"score": r"score=(\w+)"})
    backend.write("score=10\n" * 20 + "score=high\nscore=low\n")
    told = [event.notice for event in follower.poll() if isinstance(event, MetricMismatched)]
    assert told == ['--metric score matched "high", which is not a number, in the line: score=high']
    backend.write("score=lower\n")
    assert not [event for event in follower.poll() if isinstance(event, MetricMismatched)]
    cut(backend, "score=7\n")
    (seen,) = [event for event in follower.poll() if isinstance(event, MetricsAdded)]
    assert [record.value for record in seen.records] == [7]


def test_a_truncated_log_that_grew_longer_than_before_starts_again(backend, follower):
    backend.write("".join(map(plain_step, range(1, 4))))
    follower.poll()
    anew = "".join(map(plain_step, range(11, 19)))
    cut(backend, anew)
    news = follower.poll()
    assert log(news) == [("stdout.txt", anew.encode(), True)]
    assert steps(news) == [(step, None) for step in range(11, 19)]


def test_a_log_that_was_rotated_starts_again(backend, follower):
    backend.write("same\n" * 100)
    follower.poll()
    (backend.folder / "stdout.txt").rename(backend.folder / "kept")
    backend.write("same\n" * 200)
    assert ("stdout.txt", b"same\n" * 200, True) in log(follower.poll())
    assert follower.poll() == []


def test_a_growing_log_does_not_start_again(backend, follower):
    for _ in range(200):  # its first bytes become known meanwhile
        backend.write("ab\n")
        assert log(follower.poll()) == [("stdout.txt", b"ab\n", False)]


def test_a_log_replaced_by_one_of_equal_length_is_read_again_at_the_end(backend, follower):
    backend.write("one\n")
    follower.poll()
    cut(backend, "two\n")
    backend.finish()
    assert log(follower.poll()) == [("stdout.txt", b"two\n", True)]
    assert follower.is_over


def test_a_log_deleted_before_the_end_yields_no_more_output(backend, follower):
    backend.write("one\n")
    follower.poll()
    (backend.folder / "stdout.txt").unlink()
    backend.finish()
    assert log(follower.poll()) == []
    assert follower.is_over


@pytest.mark.parametrize(("text", "fault"), [("one\ntwo\n", ""), ("one\nt", "3 of its 8 bytes are missing")])
def test_a_finished_log_is_checked_against_its_seal(backend, text, fault):
    digest = hashlib.sha256(b"one\ntwo\n").hexdigest()
    read = backend.read
    backend.read = lambda *asked: replace(read(*asked), seal=Seal(8, digest))
    follower = Follower(backend, JOB)
    backend.write(text[:4])
    follower.poll()
    backend.write(text[4:])
    backend.finish()
    news = follower.poll()
    told = [event for event in news if isinstance(event, LogFault)]
    assert told == ([LogFault(STDOUT, fault)] if fault else [])
    assert isinstance(news[-1], StateChanged)


def test_stdout_and_stderr_of_the_log_directory_have_metrics(backend, follower):
    backend.write(step_line(1), "stderr.txt")
    assert steps(follower.poll()) == [(1, 0)]
    backend.write(step_line(2), "own.txt")
    news = follower.poll()
    assert [path for path, *_ in log(news)] == ["own.txt"]
    assert steps(news) == []
    other = Follower(backend, JOB, [FileRef(JOB, "stdout.txt", "MODEL")])
    backend.write(step_line(1))
    assert steps(other.poll()) == []


def test_folders_are_not_read(backend):
    listed = [OutputFile("models", FileKind.DIRECTORY, 4096), OutputFile("stdout.txt", FileKind.FILE, 3)]
    backend.files = lambda job: listed
    (backend.folder / "models").mkdir()
    backend.write("abc")
    assert [path for path, *_ in log(Follower(backend, JOB).poll())] == ["stdout.txt"]


def test_named_files_are_followed_and_no_others(backend):
    follower = Follower(backend, JOB, [FileRef(JOB, "late.txt")])
    backend.write("not asked for\n")
    assert log(follower.poll()) == []
    backend.write("here", "late.txt")
    assert log(follower.poll()) == [("late.txt", b"here", False)]
    cut(backend, "a", "late.txt")
    assert log(follower.poll()) == [("late.txt", b"a", True)]


@pytest.mark.parametrize("files", [None, [STDOUT]])
def test_a_long_log_comes_in_several_looks_and_the_end_waits_for_the_last(backend, files):
    backend.read_bytes, pieces = 2, [b"%02d" % number for number in range(MAX_CHUNKS + 2)]
    backend.write(b"".join(pieces))
    backend.finish()
    follower = Follower(backend, JOB, files=files)
    if files is None:
        backend.write("x", "z.txt")  # which is not behind
    first = follower.poll()
    assert [data for path, data, _ in log(first) if path == "stdout.txt"] == pieces[:MAX_CHUNKS]
    assert (states(first), follower.is_behind, follower.is_over) == ([], True, False)
    second = follower.poll()
    assert [data for _, data, _ in log(second)] == pieces[MAX_CHUNKS:]
    assert (states(second), follower.is_behind, follower.is_over) == (["succeeded"], False, True)
