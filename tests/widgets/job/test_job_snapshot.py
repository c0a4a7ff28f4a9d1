from batchai_magics.backends.base import Chunk, FileRef, Span
from batchai_magics.follow import LogBytes, StateChanged
from batchai_magics.widgets.job.job_feed import JobFeed
from batchai_magics.widgets.job.job_output import card_of
from tests.widgets.scripted_job import FAILURE, JOB, ExecutionState, resource


def feed_of(logs, *, spans=(), **how):
    feed = JobFeed()
    feed.take(StateChanged(resource(ExecutionState.FAILED, **how)))
    for file, data in logs.items():
        feed.take(LogBytes(FileRef(JOB, file), Chunk(data, 0, len(data), True, spans)))
    return feed


def test_the_card_of_a_failed_preparation_has_its_last_lines():
    feed = feed_of(
        {"stderr.txt": b"", "stdout-job_prep.txt": b"a\n", "stderr-job_prep.txt": b"no disk\n"}, exit_code=3
    )
    assert card_of(feed, "").failure == ["no disk", ""]


def test_the_card_has_the_words_of_the_rank_that_failed_first():
    spans = (Span(0, 6, 0), Span(6, 10, 2))
    feed = feed_of({"stderr.txt": b"noise\nbad\n"}, spans=spans, **FAILURE)
    assert card_of(feed, "").failure == ["bad", ""]
