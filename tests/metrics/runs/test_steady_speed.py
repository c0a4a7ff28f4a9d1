import pytest

from batchai_magics.metrics import read_metrics
from batchai_magics.metrics.runs.mean_rates import MeanRate, mean_rates
from batchai_magics.metrics.runs.steady_speed import (
    Interval,
    RankHistory,
    common_warm_up,
    intervals,
    steady_speed,
    warm_up_steps,
)
from batchai_magics.metrics.runs.step_series import runs
from tests.metrics.log_text import run, step

EVERY = 10


def courses(series):
    return {rank: RankHistory.of(steps) for rank, steps in series.items()}


def steps(seconds, rank=0, batch=100):
    """Step lines of a process that takes these seconds for each ten steps, rounded as they are printed."""
    records, spent = [], 0.0
    for number, taken in enumerate(seconds, 1):
        spent += taken
        rate = round(number * EVERY * batch / spent, 1)
        records.append(MeanRate(number * EVERY, rate, 1.5, 2.5))
    return records


def rates_of(found):
    return [round(interval.images_per_sec) for interval in found]


def test_blocks_undo_the_cumulative_mean():
    assert rates_of(intervals(steps([1, 2, 4]))) == [1000, 500, 250]


def test_lines_whose_rounding_blurs_the_speed_are_merged():
    slow = steps([1] * 40, batch=0.5)  # 5 images/sec: a printed tenth is 1 % of all steps so far
    found = intervals(slow)
    assert len(found) < len(slow) / 2
    assert all(interval.images_per_sec == pytest.approx(5, rel=0.05) for interval in found)


def test_a_long_run_has_a_hundred_blocks_at_most():
    assert len(intervals(steps([1] * 1000))) == 100


def test_order_does_not_matter():
    told = steps([5, 4, 1, 1, 1, 1])
    assert intervals(told[::-1]) == intervals(told)


def test_warm_up_ends_where_the_steady_speed_begins():
    assert warm_up_steps(intervals(steps([5, 4, 3, *[1] * 17]))) == 30


def test_a_late_disturbance_is_no_warm_up():
    assert warm_up_steps(intervals(steps([*[1] * 18, 5, 1]))) == 0


def test_a_fast_beginning_is_no_warm_up():
    assert warm_up_steps(intervals(steps([*[1] * 8, *[2] * 12]))) == 0


def test_warm_up_may_last_for_half_of_the_run_and_no_longer():
    assert warm_up_steps(intervals(steps([*[5] * 5, *[1] * 5]))) == 50
    assert warm_up_steps(intervals(steps([*[5] * 6, *[1] * 5]))) != 60


def test_a_beginning_that_is_hardly_slower_is_no_warm_up():
    assert warm_up_steps([Interval(10 * n, 10 * n + 10, 97.0 if n < 5 else 100.0) for n in range(20)]) == 0
    assert warm_up_steps([Interval(10 * n, 10 * n + 10, 94.0 if n < 5 else 100.0) for n in range(20)]) == 50


def test_four_blocks_are_enough():
    assert warm_up_steps([Interval(10 * n, 10 * n + 10, 1.0) for n in range(4)]) == 0


def test_all_steps_after_the_cut_count_and_one_alone_tells_nothing():
    told = steps([5, 5, 1, 3])
    assert steady_speed(RankHistory.of(told), 20).images_per_sec == pytest.approx(500, rel=0.01)
    assert steady_speed(RankHistory.of(told), 30) == steady_speed(RankHistory.of(told), None)


def test_noise_is_no_warm_up():
    assert warm_up_steps(intervals(steps([1.01, 0.99, 1.02, 0.98] * 5))) == 0


def test_a_few_lines_tell_no_warm_up():
    assert warm_up_steps([Interval(0, 10, 1.0)] * 3) is None
    assert common_warm_up(courses(mean_rates(runs(read_metrics(run(ranks=2).encode()).records)[-1]))) is None


def test_the_common_warm_up_is_that_of_half_of_the_ranks():
    series = {0: steps([1] * 20), 1: steps([5, 5, *[1] * 18]), 2: steps([5, 5, *[1] * 18])}
    assert common_warm_up(courses(series)) == 20


def test_without_warm_up_the_last_line_says_it_all():
    speed = steady_speed(RankHistory.of(steps([1] * 20)), 0)
    assert (speed.images_per_sec, speed.uncertainty, speed.jitter) == (1000, 1.5, 2.5)


def test_a_rate_of_nothing_is_left_out():
    records = read_metrics(f"{step(10, 0.0)}\n{step(20, 50.0)}\n".encode()).records
    assert rates_of(intervals(mean_rates(records)[0])) == [50]
