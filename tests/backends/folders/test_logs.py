"""Logs of a job: what is read of one while its ranks write."""

from __future__ import annotations

from pathlib import Path

import pytest

from batchai_magics.backends.base import Span
from batchai_magics.backends.folders.run_output import Logs
from batchai_magics.backends.node.job_layout import JobLayout
from batchai_magics.backends.node.ranks.output_streams import SPAN


@pytest.fixture
def job(tmp_path: Path) -> JobLayout:
    """A job with a log of two lines, of which one is known to be rank 1's."""
    job = JobLayout(tmp_path / "job")
    job.spans("stdout").parent.mkdir(parents=True, exist_ok=True)
    job.spans("stdout").write_bytes(SPAN.pack(0, 4, 1))
    (tmp_path / "stdout.txt").write_bytes(b"one\ntwo\n")
    return job


def test_a_line_is_not_shown_before_it_is_known_whose_it_is(job, tmp_path):
    logs = Logs(tmp_path, job, is_open=True)
    chunk = logs.read("stdout.txt", 0, 100)
    assert (chunk.data, chunk.size, chunk.spans) == (b"one\n", 4, (Span(0, 4, 1),))
    assert logs.read("stdout.txt", 0, 0).size == 4
    rest = logs.tail({"stdout.txt": 4}, 100)["stdout.txt"]
    assert (rest.data, rest.end, rest.size) == (b"", 4, 4)
    with job.spans("stdout").open("ab") as spans:
        spans.write(SPAN.pack(4, 8, 0))
    assert logs.tail({"stdout.txt": 4}, 100)["stdout.txt"].spans == (Span(4, 8, 0),)


def test_what_nobody_signed_is_shown_when_the_job_is_over(job, tmp_path):
    assert Logs(tmp_path, job, is_open=False).read("stdout.txt", 0, 100).data == b"one\ntwo\n"
