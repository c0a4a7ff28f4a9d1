import random

import pytest

from batchai_magics.metrics import LossTrend, summarize
from batchai_magics.metrics.runs.summary_builder import loss_trend
from tests.metrics.log_text import step_numbers


def test_a_noisy_descent_is_falling():
    noise = random.Random(1)
    assert loss_trend(3 - step / 50 + noise.gauss(0, 0.3) for step in range(50)) is LossTrend.FALLING


def test_a_descent_that_levels_off_is_falling():
    assert loss_trend([7.0, 4.0, 3.0, 2.5, 2.3, 2.2, 2.2, 2.2]) is LossTrend.FALLING


def test_a_climb_is_rising():
    assert loss_trend([1.0, 1.1, 1.3, 1.2, 1.5, 1.9]) is LossTrend.RISING


@pytest.mark.parametrize("losses", [[0.0] * 10, [2.0, 2.2] * 10])
def test_losses_that_go_nowhere_are_flat(losses):
    assert loss_trend(losses) is LossTrend.FLAT


def test_too_few_finite_losses_have_no_trend():
    assert loss_trend([4.0, 3.0, 2.0, 1.0, float("nan"), float("inf")]) is None


def test_many_losses_are_told_from_their_means():
    noise = random.Random(1)
    assert loss_trend(noise.gauss(0, 1) - step / 20_000 for step in range(100_000)) is LossTrend.FALLING


def test_a_steps_loss_is_the_mean_of_its_ranks():
    lines = [*step_numbers(10, 0, loss=1.0), *step_numbers(10, 1, loss=2.0)]
    assert summarize(lines).last_loss == 1.5


def test_chance_is_judged_with_the_correction_for_whole_pairs():
    assert loss_trend([6, 5, 3, 4, 1, 2]) is LossTrend.FLAT
    assert loss_trend([6, 5, 4, 3, 1, 2]) is LossTrend.FALLING
