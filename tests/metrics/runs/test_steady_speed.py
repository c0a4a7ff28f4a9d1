"""The speed of warm ranks, and who is called a straggler: never by noise, soon where a rank is slow."""

import math
import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from batchai_magics.metrics import read_metrics
from batchai_magics.metrics.runs.mean_rates import MeanRate
from batchai_magics.metrics.runs.run_metrics import RunMetrics
from batchai_magics.metrics.runs.steady_speed import (
    Interval,
    RankHistory,
    Speeds,
    chance,
    intervals,
    steady_speed,
    stragglers,
    warm_up_steps,
)
from tests.metrics.log_text import run

EVERY = 10


def speeds_of(series):
    return Speeds(series, ranks=len(series), is_rate_global=False)


def printed_steps(seconds, rank=0, batch=100):
    """Step lines of a process that takes these seconds for each ten steps, rounded as they are printed."""
    records, spent = [], 0.0
    for number, taken in enumerate(seconds, 1):
        spent += taken
        rate = round(number * EVERY * batch / spent, 1)
        records.append(MeanRate(number * EVERY, rate, 1.5, 2.5))
    return records


def rates_of(found):
    return [round(interval.images_per_sec) for interval in found]


def test_intervals_undo_the_cumulative_mean():
    told = printed_steps([1, 2, 4])
    assert rates_of(intervals(told)) == rates_of(intervals(told[::-1])) == [1000, 500, 250]


def test_lines_are_merged_if_rounding_distorts_their_speed():
    slow = printed_steps([1] * 40, batch=0.5)  # 5 images/sec: a printed tenth is 1 % of all steps so far
    found = intervals(slow)
    assert len(found) < len(slow) / 2
    assert all(interval.images_per_sec == pytest.approx(5, rel=0.05) for interval in found)


def test_long_run_has_at_most_a_hundred_intervals():
    assert len(intervals(printed_steps([1] * 1000))) == 100


@pytest.mark.parametrize(
    ("seconds", "warm_up"),
    [
        ([5, 4, 3, *[1] * 17], 30),
        ([*[1] * 18, 5, 1], 0),  # a late disturbance
        ([*[1] * 8, *[2] * 12], 0),  # a fast beginning
        ([*[5] * 5, *[1] * 5], 50),  # half of the run
        ([1.01, 0.99, 1.02, 0.98] * 5, 0),  # noise
        ([*[1 / 0.97] * 5, *[1] * 15], 0),  # hardly slower
        ([*[1 / 0.94] * 5, *[1] * 15], 50),
        ([1] * 4, 0),  # enough
    ],
)
def test_warm_up_ends_where_the_steady_speed_begins(seconds, warm_up):
    assert warm_up_steps(intervals(printed_steps(seconds))) == warm_up
    assert warm_up_steps(intervals(printed_steps([*[5] * 6, *[1] * 5]))) != 60


def test_speed_covers_all_intervals_after_the_cut_but_needs_more_than_one():
    told = printed_steps([5, 5, 1, 3])
    assert steady_speed(RankHistory.of(told), 20).images_per_sec == pytest.approx(500, rel=0.01)
    assert steady_speed(RankHistory.of(told), 30) == steady_speed(RankHistory.of(told), None)


def test_too_few_lines_give_no_warm_up():
    assert warm_up_steps([Interval(0, 10, 1.0)] * 3) is None
    assert RunMetrics(read_metrics(run(ranks=2).encode()).records).speeds.warm_up_steps is None


def test_common_warm_up_is_the_warm_up_of_half_of_the_ranks():
    series = {
        0: printed_steps([1] * 20),
        1: printed_steps([5, 5, *[1] * 18]),
        2: printed_steps([5, 5, *[1] * 18]),
    }
    assert speeds_of(series).warm_up_steps == 20


def steady(rnd, spread=0.02):
    """Steps that have nothing to do with each other."""
    while True:
        yield math.exp(rnd.gauss(0, spread))


def drifting(rnd, spread=0.1, memory=0.9):
    """Steps that are as slow as those before them, mostly."""
    at = rnd.gauss(0, spread)
    while True:
        yield math.exp(at)
        at = memory * at + rnd.gauss(0, spread * math.sqrt(1 - memory**2))


def hiccups(rnd):
    """Steps of which one in twenty takes far longer."""
    while True:
        yield 1 + rnd.random() / 20 + (rnd.paretovariate(1.2) if rnd.random() < 0.05 else 0)


def printed(times, *, every, rank=0):
    """What a rank prints whose steps take so long: every tenth tells the mean rate, in tenths."""
    spent, lines = 0.0, []
    for step, time in enumerate(times, 1):
        spent += time
        if step == 1 or step % every == 0:
            lines.append(MeanRate(step, round(100 * step / spent, 1), 0, 0))
    return lines


def named(kind, seed, *, ranks=8, steps=200, every=10, slow=lambda step: 1.0):
    """The stragglers of a run in which rank 0 takes `slow` times as long for a step."""
    rnd = random.Random(seed)
    together = [rnd.uniform(0.5, 2) for _ in range(steps)]  # what all ranks wait for
    series = {}
    for rank in range(ranks):
        own = zip(range(steps), kind(rnd), together, strict=False)
        times = [time * all_of_them * (slow(step) if rank == 0 else 1) for step, time, all_of_them in own]
        series[rank] = printed(times, every=every, rank=rank)
    return stragglers(speeds_of(series))


@pytest.mark.parametrize(("kind", "ranks"), [(steady, 32), (drifting, 4), (hiccups, 2)])
def test_noise_of_any_kind_makes_a_straggler_in_a_run_of_twenty_at_most(kind, ranks):
    false = [seed for seed in range(60) if named(kind, seed, ranks=ranks, steps=100)]
    assert len(false) <= 3


@pytest.mark.parametrize(("kind", "ranks"), [(steady, 2), (drifting, 4), (steady, 32)])
def test_a_rank_that_is_much_slower_is_found_in_the_noise(kind, ranks):
    found = [named(kind, seed, ranks=ranks, slow=lambda step: 1.6) for seed in range(20)]
    assert found.count((0,)) >= 18


def test_rank_that_becomes_slow_half_way_is_a_straggler():
    assert named(steady, 1, slow=lambda step: 1.6 if step > 100 else 1) == (0,)


@pytest.mark.parametrize("lag", [0.006, 0.03])
def test_rank_that_is_significantly_but_slightly_slower_is_no_straggler(lag):
    assert named(steady, 1, slow=lambda step: 1 / (1 - lag)) == ()


def test_a_few_disturbed_segments_make_no_straggler():
    assert named(steady, 1, slow=lambda step: 8 if 90 < step < 110 else 1) == ()


def test_a_few_very_fast_segments_do_not_hide_a_straggler():
    slow = {"ranks": 4, "slow": lambda step: 0.02 if 90 < step < 125 else 1.6}
    found = [named(steady, seed, **slow) for seed in range(20)]
    assert found.count((0,)) >= 18


def test_two_lines_are_too_few_and_six_are_enough():
    slow = {"ranks": 4, "every": 10, "slow": lambda step: 1.6}
    assert named(steady, 1, steps=10, **slow) == ()
    assert named(steady, 1, steps=50, **slow) == (0,)


def test_ranks_that_print_at_other_steps_are_compared_where_both_have_printed():
    rnd = random.Random(1)
    times = [next(steady(rnd)) for _ in range(200)]
    series = {0: printed([1.5 * each for each in times], every=7), 1: printed(times, every=10)}
    series[2] = printed(times[::-1], every=9)
    assert stragglers(speeds_of(series)) == (0,)


def test_rank_with_a_single_value_is_no_straggler():
    series = {0: printed([3.0], every=1), 1: printed([1.0] * 100, every=10)}
    assert stragglers(speeds_of(series)) == ()


def test_stretches_that_vary_at_random_are_hardly_chance_wherever_the_least_slow_one_is():
    ratios = [-0.5, -0.3, -0.4, -0.4, -0.3, -0.5, -0.5, -0.2]
    assert max(chance(ratios), chance(ratios[::-1])) < 0.001


@pytest.mark.parametrize(("ratio", "count"), [(-0.05, 3), (-0.5, 2), (0.0, 20), (0.5, 20)])
def test_small_or_few_differences_may_be_chance(ratio, count):
    assert chance([ratio] * count) > 0.01


# Of longer lists, later parts are tested too: the whole may be slow and its last part fast.
@given(st.lists(st.floats(-2, 2), min_size=3, max_size=4))
def test_the_chance_of_ratios_and_of_their_opposites_is_one_together_at_least(ratios):
    both = chance(ratios), chance([-ratio for ratio in ratios])
    assert all(0 <= each <= 1 for each in both)
    assert sum(both) >= 1 - 1e-9


@given(st.lists(st.floats(-1, 1), min_size=5, max_size=40), st.floats(0.01, 1))
@example([-1.0] * 7, 0.2209113676701534)  # all alike but for the rounding of the lag
def test_a_slower_rank_is_never_more_likely_by_chance(ratios, lag):
    assert chance([ratio - lag for ratio in ratios]) <= chance(ratios) + 1e-9
