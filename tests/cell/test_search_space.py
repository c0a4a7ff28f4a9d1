"""What `--sweep` describes, and which trials a grid and a random search have."""

import math

import hypothesis
import hypothesis.strategies as st
import pandas as pd
import pytest

from batchai_magics.cell.search_space import Choices, Distribution, Range, listed_trials, search_space
from batchai_magics.errors import UsageError


def test_a_grid_has_every_combination_and_the_last_parameter_varies_fastest():
    assert search_space("lr=1e-4,1e-3 batch=32,64").grid() == [
        {"lr": 1e-4, "batch": 32},
        {"lr": 1e-4, "batch": 64},
        {"lr": 1e-3, "batch": 32},
        {"lr": 1e-3, "batch": 64},
    ]


def test_ranges_are_read_with_spaces_inside():
    space = search_space("lr=log(1e-5, 1e-1) dropout=uniform(0,.5)  layers=int(2,8)")
    assert space.domains == {
        "lr": Range(Distribution.LOG, 1e-5, 1e-1),
        "dropout": Range(Distribution.UNIFORM, 0, 0.5),
        "layers": Range(Distribution.INTEGER, 2, 8),
    }


def test_values_are_numbers_truth_values_and_texts():
    (domain,) = search_space("x=1,2.5,True,adam,true,1").domains.values()
    assert str(domain) == str(Choices((1, 2.5, True, "adam", "true")))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no parameter is given"),
        ("lr", "'lr' is not NAME=VALUES"),
        ("lr=", "lr has an empty value"),
        ("lr=1,,2", "lr has an empty value"),
        ("lr=1 lr=2", "the parameter lr is there twice"),
        ("a-b=1", "'a-b' is not a name for a parameter"),
        ("lr=log(0,1)", "lr=log(0,1): the bounds of log(…) must be positive"),
        ("lr=uniform(1,1)", "the first bound must be less than the second"),
        ("lr=uniform(1)", "expected two numbers"),
        ("lr=uniform(a,b)", "expected two numbers"),
        ("lr=normal(0,1)", "there is no normal(…)"),
        ("n=int(1,2.5)", "must be whole numbers"),
        ("lr=log(1,2", "is not NAME=VALUES"),
    ],
)
def test_an_error_names_the_parameter(text, told):
    with pytest.raises(UsageError) as caught:
        search_space(text)
    assert told in str(caught.value)


def test_the_same_seed_gives_the_same_trials_and_more_of_them_continue_the_sequence():
    space = search_space("lr=log(1e-5,1e-1) dropout=uniform(0,.5)")
    assert space.sample(20, 1)[:7] == space.sample(7, 1)
    assert space.sample(7, 1) != space.sample(7, 2)


def test_a_random_search_of_lists_ends_when_all_combinations_are_drawn():
    found = search_space("a=1,2 b=x,y").sample(50, 0)
    assert sorted((row["a"], row["b"]) for row in found) == [(1, "x"), (1, "y"), (2, "x"), (2, "y")]


@hypothesis.given(st.integers(0, 10_000))
def test_drawn_values_are_inside_their_range(seed):
    (row,) = search_space("lr=log(1e-5,1e-1) n=int(2,4) p=uniform(-1,1)").sample(1, seed)
    assert 1e-5 <= row["lr"] <= 1e-1
    assert row["n"] in (2, 3, 4)
    assert -1 <= row["p"] <= 1


def test_a_log_range_covers_its_orders_of_magnitude_evenly():
    drawn = [row["lr"] for row in search_space("lr=log(1e-4,1)").sample(2000, 3)]
    decades = [sum(1 for lr in drawn if math.floor(math.log10(lr)) == decade) for decade in (-4, -3, -2, -1)]
    assert min(decades) > 400


def test_the_rows_of_a_data_frame_are_trials_without_duplicates():
    rows = pd.DataFrame({"lr": [0.1, 0.2, 0.1], "opt": ["sgd", "adam", "sgd"]})
    assert listed_trials(rows) == [{"lr": 0.1, "opt": "sgd"}, {"lr": 0.2, "opt": "adam"}]
    assert type(listed_trials(pd.DataFrame({"n": [1]}))[0]["n"]) is int


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([], "not empty"),
        ("rows", "a DataFrame or a list of dicts"),
        ([{"lr": [1]}], "row 0, column lr"),
        ([{"lr": 1}, {"lr": float("nan")}], "row 1, column lr"),
        ([{"lr": 1}, {"mu": 1}], "row 1 and row 0 differ in lr, mu"),
        ([{"a b": 1}], "'a b' is not a name"),
    ],
)
def test_an_error_names_the_row(rows, told):
    with pytest.raises(UsageError) as caught:
        listed_trials(rows)
    assert told in str(caught.value)
