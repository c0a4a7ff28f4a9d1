"""The metrics of a job's stdout and stderr, read as those of one run."""

from __future__ import annotations

import pytest

from batchai_magics.backends.base import Chunk, WriteTime
from batchai_magics.follow.metric_streams import MIN_COLUMN_BYTES, MetricStreams
from batchai_magics.launch.plan import TRAINER_LOG
from batchai_magics.metrics.measurement import Measurement
from batchai_magics.metrics.runs.log_records import in_time_order
from batchai_magics.metrics.runs.run_summary import summarize
from tests.metrics.log_text import step

OUT, ERR, FILES = "stdout.txt", "stderr.txt", TRAINER_LOG
BAR = "\r {percent}%|#         | {done}/30 [00:02<00:10,  4.19it/s]"


class Writer:
    """Writes to the two files; each piece has its time."""

    def __init__(self):
        self.now = 0.0
        self.streams = MetricStreams({"psnr": r"psnr=(\w+)"}, clock=lambda: self.now)
        self.ends = {OUT: 0, ERR: 0, FILES: 0}

    def write(self, file, text, time=None):
        start = self.ends[file]
        self.ends[file] += len(text)
        times = () if time is None else (WriteTime(start, time),)
        return tuple(self.streams.feed(file, Chunk(text.encode(), start, self.ends[file], False, (), times)))


@pytest.fixture
def job():
    return Writer()


def rows(records):
    return [(record.name, record.value, record.step, record.epoch) for record in records]


def printed(loss, epoch):
    return f"{{'loss': {loss}, 'epoch': {epoch}}}\n"


def bar(done):
    """The bar, which the next one or the end of the line completes."""
    return BAR.format(percent=done * 100 // 30, done=done)


def test_a_number_that_both_have_counts_once(job):
    assert len(job.write(OUT, "step 3: loss 0.5\nstep 4: loss 0.4\n")) == 2
    assert rows(job.write(ERR, "INFO step 3: loss 0.5\nINFO step 5: loss 0.4\n")) == [("loss", 0.4, 5, None)]


def test_lines_of_one_log_do_not_move_lines_of_the_other(job):
    job.write(OUT, "Epoch 3\n")
    assert rows(job.write(ERR, "Validation loss: 0.5\n")) == [("val_loss", 0.5, None, None)]


def test_a_dict_on_stdout_is_at_the_step_that_its_bar_on_stderr_shows_when_drawn_again(job):
    job.write(ERR, bar(0) + bar(1) + bar(2), 100.0)
    assert job.write(OUT, printed(0.5, 0.5), 102.0) == ()
    assert job.streams.flush() == ()
    job.write(ERR, bar(5) + bar(5), 102.3)  # an unfinished line is written late
    assert job.streams.flush() == ()
    job.write(ERR, bar(10) + "\n", 104.0)
    assert rows(job.streams.flush()) == [("loss", 0.5, 5, 0.5)]
    assert job.write(OUT, printed(0.4, 1.0), 104.0) == ()
    assert rows(job.streams.finish()) == [("loss", 0.4, 10, 1.0)]


def test_a_dict_whose_bar_is_not_drawn_again_waits_no_longer_than_a_second(job):
    job.write(ERR, bar(5) + bar(5), 101.9)
    job.write(OUT, printed(0.5, 0.5), 102.0)
    assert job.streams.flush() == ()
    job.now = 1.0
    assert rows(job.streams.flush()) == [("loss", 0.5, 5, 0.5)]


def test_bars_of_nearly_the_same_time_are_distinguished_by_the_epoch(job):
    job.write(ERR, "".join(bar(done) for done in (0, 3, 7, 9, 10, 11)) + "\n", 100.0)
    job.write(OUT, printed(0.7, 0.7) + printed(0.4, 1.0), 100.0)
    assert [record.step for record in job.streams.finish()] == [7, 10]


def test_a_dict_has_the_step_of_a_bar_drawn_long_before(job):
    job.write(ERR, bar(0) + bar(5) + "\n", 100.0)
    job.write(OUT, printed(0.5, 0.5), 110.0)
    assert rows(job.streams.finish()) == [("loss", 0.5, 5, 0.5)]


def test_a_dict_between_bars_that_fit_its_epoch_alike_is_at_that_nearest_in_time(job):
    job.write(ERR, bar(7) + bar(7), 100.0)
    job.write(OUT, printed(0.5, 0.77), 100.0)
    job.write(ERR, bar(8) + "\n", 100.4)
    assert [record.step for record in job.streams.finish()] == [7]


def test_a_later_dict_tells_the_number_of_epochs_of_one_that_waits_with_it(job):
    job.write(ERR, bar(10) + bar(10), 99.8)
    job.write(ERR, bar(15) + bar(15), 100.0)
    job.write(OUT, printed(0.5, 1.0), 100.0)  # of 2 or 3 epochs
    job.write(ERR, bar(15) + "\n", 110.0)
    job.write(OUT, printed(0.4, 1.5), 110.0)  # of 3
    assert [record.step for record in job.streams.finish()] == [10, 15]


def test_a_dict_in_a_long_part_of_a_log_waits_for_its_bar_too(job):
    assert job.write(OUT, "words\n" * MIN_COLUMN_BYTES + printed(0.5, 0.5), 100.0) == ()
    job.write(ERR, bar(5) + "\n", 100.1)
    assert rows(job.streams.finish()) == [("loss", 0.5, 5, 0.5)]


def test_numbers_without_a_position_are_kept_of_both_files(job):
    assert rows(job.write(OUT, "psnr=2\n")) == [("psnr", 2.0, None, None)]
    assert rows(job.write(ERR, "psnr=2\n")) == [("psnr", 2.0, None, None)]


def test_a_dict_of_a_job_without_a_bar_has_no_step(job):
    job.write(OUT, printed(0.5, 0.5), 102.0)
    assert job.streams.flush() == ()
    job.now = 1.0
    assert rows(job.streams.flush()) == [("loss", 0.5, None, 0.5)]
    job.write(ERR, bar(5) + "\n")
    assert rows(job.write(OUT, printed(0.4, 1.0))) == [("loss", 0.4, None, 1.0)]  # of unknown time


def test_a_match_that_is_no_number_is_reported_once_for_both_logs(job):
    job.write(OUT, "psnr=low\n")
    job.write(ERR, "psnr=high\n")
    assert [mismatch.text for mismatch in job.streams.mismatches] == ["low"]


def test_a_name_and_step_that_are_printed_and_in_a_file_count_once_whatever_the_digits(job):
    job.write(OUT, "step 3: loss 0.12\nstep 3: val_loss 0.5\n")
    found = job.write(FILES, '{"step": 3, "train/loss": 0.1234}\n{"step": 4, "train/loss": 0.1}\n')
    assert rows(found) == [("train/loss", 0.1, 4, None)]
    job.streams.has_trainer_files = True
    job.write(OUT, "".join(f"step {step}: loss 0.5\n" for step in range(5, 3000)))
    assert rows(job.write(FILES, '{"step": 7, "loss": 0.5}\n')) == []


def test_a_number_that_is_printed_after_it_was_read_from_a_file_counts_once(job):
    job.write(FILES, '{"step": 3, "rank": 0, "loss": 0.1234}\n')
    assert rows(job.write(OUT, "step 3: loss 0.12\nstep 4: loss 0.1\n")) == [("loss", 0.1, 4, None)]


def test_an_attempt_may_print_the_steps_again_that_a_file_has(job):
    job.write(FILES, '{"step": 3, "loss": 0.5}\n')
    printed = "[batchai] attempt 2 begins on node1: preempted\nstep 3: loss 0.4\n"
    assert [record.step for record in job.write(OUT, printed)[1:]] == [3]


def test_a_replaced_file_is_read_anew(job):
    job.write(ERR, "step 3: los")
    job.streams.restart(ERR)
    job.ends[ERR] = 0
    assert rows(job.write(ERR, "step 1: loss 0.5\n")) == [("loss", 0.5, 1, None)]


def test_records_of_two_files_are_in_the_order_of_their_times():
    first, second, third, untimed = (Measurement("loss", n, wall_time=n or None) for n in (1, 2, 3, 0))
    assert [*in_time_order([[first, third], [second]])] == [first, second, third]
    assert [*in_time_order([[first, untimed, third], [second]])] == [first, untimed, second, third]
    assert [*in_time_order([[untimed], [untimed._replace(step=1)]])] == [untimed, untimed._replace(step=1)]
    assert [*in_time_order([[], [first]])] == [first]
    assert not [*in_time_order([[], []])]


def mean_rate(number, rate, loss):
    return step(number, rate, f"{loss:.3f}", uncertainty=0.1, jitter=0.5) + "\n"


def test_mean_rates_of_two_processes_stay_whole_whatever_numbers_they_have_in_common(job):
    records = job.write(OUT, mean_rate(10, 100.0, 0.25)) + job.write(ERR, mean_rate(10, 100.0, 0.5))
    summary = summarize(records)
    assert (summary.ranks, summary.last_loss) == (2, 0.375)
    assert [record.name for record in records].count("jitter") == 2


def test_a_mean_rate_that_both_have_counts_once(job):
    assert len(job.write(OUT, mean_rate(10, 100.0, 0.25))) == 4
    assert job.write(ERR, mean_rate(10, 100.0, 0.25)) == ()


def test_many_lines_that_both_have_count_once_however_much_is_read_at_a_time(job):
    lines = [f"step {number}: loss 0.{number}\n" for number in range(1, 2000)]
    assert len(job.write(OUT, "".join(lines))) == 1999
    assert job.write(ERR, "".join(lines)) == ()
    assert job.write(ERR, lines[7]) == ()
