"""What accounting answers, as a real slurmdbd 22.05 on MariaDB 10.11 gave it, with `|` as the separator."""

from __future__ import annotations

import pytest

from batchai_magics.backends.slurm import parse, queries
from batchai_magics.backends.slurm.node.attempt_ends import EndState
from batchai_magics.backends.slurm.parse import SEPARATOR

# A cluster with AccountingStoreFlags=job_comment: a comment is kept when the job has ended.
RECORDED = """\
1|PREEMPTED|0:0|1795381030|1795381098|batchai-time|guid-time
2|COMPLETED|0:0|1795381030|1795381030|batchai-ok|guid-ok
3|FAILED|3:0|1795381030|1795381030|batchai-bad|guid-bad
4|FAILED|0:11|1795381030|1795381031|batchai-sig|guid-sig
6|CANCELLED by 0|0:0|1795381030|1795381034|batchai-held|guid-held
8|NODE_FAIL|0:0|1795381037|1795381121|batchai-lost|guid-lost
11|TIMEOUT|0:0|1795381214|1795381296|batchai-limit|guid-limit
12|REQUEUED|0:0|1795381380|1795381383|batchai-again|guid-again
12|PENDING|0:0|1795381383|Unknown|batchai-again|
13|RUNNING|0:0|1795381037|Unknown|batchai-up|
"""
# Without job_comment there is none. OUT_OF_MEMORY after the manual page of sacct: it takes cgroups.
BARE = """\
4|OUT_OF_MEMORY|0:125|1795381030|1795381031|batchai-mem|
5|COMPLETED|0:0|1795000000|1795000100|batchai-other|
5|CANCELLED by 1000|0:0|1795381030|1795381034|batchai-five|
"""


def past_jobs(text: str) -> list[parse.SlurmJob]:
    return parse.past_jobs(text.replace("|", SEPARATOR))


def end_of(text: str, number: str, name: str, *, guid: str = "", submitted: float = 1795381031.5):
    return queries.ended_job(
        past_jobs(text), number, guid=guid or f"guid-{name}", name=name, submitted=submitted
    )


@pytest.mark.parametrize(
    ("number", "name", "ending", "words"),
    [
        ("1", "time", EndState.PREEMPTED, "PREEMPTED"),
        ("2", "ok", EndState.COMPLETED, "COMPLETED"),
        ("3", "bad", EndState.FAILED, "FAILED with exit code 3"),
        ("4", "sig", EndState.FAILED, "FAILED by signal 11"),
        ("6", "held", EndState.CANCELLED, "CANCELLED by the user with number 0"),
        ("8", "lost", EndState.NODE_FAIL, "NODE_FAIL"),
        ("11", "limit", EndState.TIMEOUT, "TIMEOUT"),
    ],
)
def test_each_end_is_known_with_its_words(number: str, name: str, ending: EndState, words: str) -> None:
    told = end_of(RECORDED, number, name)
    assert told
    assert (told.end_state, told.description) == (ending, f"Slurm's accounting says {words}")
    assert f"|{told.ended:.0f}|batchai-{name}|" in RECORDED


@pytest.mark.parametrize(
    ("number", "name", "guid"),
    [("12", "again", ""), ("13", "up", ""), ("99", "nobody", ""), ("3", "bad", "guid-other")],
)
def test_what_has_not_ended_is_not_known_or_of_another_comment_has_no_end(
    number: str, name: str, guid: str
) -> None:
    assert end_of(RECORDED, number, name, guid=guid) is None


def test_where_comments_are_not_kept_name_and_time_tell_jobs_apart() -> None:
    told = end_of(BARE, "5", "five")
    assert told
    assert told.end_state is EndState.CANCELLED
    assert end_of(BARE, "5", "other") is None  # an older job of that number, and of that name
    assert end_of(BARE, "4", "five") is None
    memory = end_of(BARE, "4", "mem")
    assert memory
    assert memory.end_state is EndState.OUT_OF_MEMORY


def test_nothing_and_noise_are_no_jobs() -> None:
    assert past_jobs("") == []
    assert past_jobs("sacct: error: Problem talking to the database: Connection refused\n") == []
