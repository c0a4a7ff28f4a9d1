"""Runs that differ in their seed alone: groups, means, spreads, and what is said about differences."""

import pytest

from batchai_magics.metrics.runs.seed_groups import BEYOND, TOO_FEW, WITHIN, SeededRun, seed_groups


def runs(**values):
    """Runs of the parameter lr, one for each value: `a` stands for 0.1, `b` for 0.2."""
    rates = {"a": 0.1, "b": 0.2, "c": 0.3}
    return [
        SeededRun({"lr": rates[name], "seed": seed}, value)
        for name, every in values.items()
        for seed, value in enumerate(every)
    ]


def test_runs_with_the_same_other_parameters_are_a_group_with_mean_and_spread():
    groups = seed_groups(runs(a=[1.0, 2.0, 3.0], b=[5.0]), "loss", rises=False)
    assert groups.rows() == [
        {"lr": 0.1, "seeds": 3, "mean": 2.0, "spread": 1.0, "verdict": "best"},
        {"lr": 0.2, "seeds": 1, "mean": 5.0, "spread": None, "verdict": TOO_FEW},
    ]


@pytest.mark.parametrize(
    ("other", "verdict"),
    [
        ([2.0, 3.0, 4.0], WITHIN),  # means differ by 1, single runs by 1.4
        ([3.4, 4.4, 5.4], BEYOND),  # by 2.4
        ([3.4, 4.4], TOO_FEW),
    ],
)
def test_a_difference_is_compared_with_the_spread_of_both_from_three_seeds_on(other, verdict):
    groups = seed_groups(runs(a=[1.0, 2.0, 3.0], b=other), "loss", rises=False)
    assert groups.verdict(1) == verdict


def test_the_best_group_has_the_best_mean_not_the_best_run():
    lucky = runs(a=[0.9, 0.1, 0.1], b=[0.6, 0.6, 0.6])
    assert seed_groups(lucky, "accuracy", rises=True).reference == 1
    assert seed_groups(lucky, "loss", rises=False).reference == 0


def test_no_group_is_called_best_without_a_direction():
    groups = seed_groups(runs(a=[1.0] * 3, b=[2.0] * 3), "temperature", rises=None)
    assert [row["verdict"] for row in groups.rows()] == ["", ""]


def test_others_are_compared_with_the_group_of_the_baseline():
    groups = seed_groups(runs(a=[1.0] * 3, b=[2.0] * 3), "loss", rises=False, baseline=4)
    assert [row["verdict"] for row in groups.rows()] == [BEYOND, "baseline"]
    assert groups.sentences() == [
        "lr=0.1: loss 1 ± 0 over 3 seeds, beyond the spread of seeds of the baseline",
        "lr=0.2: loss 2 ± 0 over 3 seeds, the baseline",
    ]


def test_runs_without_a_value_or_a_seed_belong_to_no_group():
    odd = [*runs(a=[1.0, float("nan"), None]), SeededRun({"lr": 0.1}, 1.0)]  # type: ignore[list-item]
    (group,) = seed_groups(odd, "loss", rises=False).groups
    assert group.values == {0: 1.0}


def test_runs_of_two_sweeps_with_equal_parameters_are_two_groups_with_their_names():
    seeds = [SeededRun({"seed": seed}, 1.0, sweep) for sweep in ("old", "new") for seed in range(2)]
    assert [group.name for group in seed_groups(seeds, "loss", rises=False).groups] == ["old", "new"]
