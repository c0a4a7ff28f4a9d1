"""The preflight's order of measurements, and what follows from its report."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchai_magics.backends.node.preflight import CODE, conclusion_of, max_excluded, rounds
from batchai_magics.records.preflight import NodeCheck, PreflightReport


@given(st.integers(0, 17))
def test_all_pairs_meet_once_and_no_node_has_two_partners_in_a_round(count):
    nodes = range(10, 10 + count)
    found = list(rounds(nodes))
    met = [frozenset(pair) for pairs in found for pair in pairs]
    assert len(met) == len(set(met))
    assert set(met) == {frozenset(pair) for pair in combinations(nodes, 2)}
    for pairs in found:
        busy = [node for pair in pairs for node in pair]
        assert len(busy) == len(set(busy))


@pytest.mark.parametrize(("count", "excluded"), [(1, 0), (2, 1), (4, 1), (8, 2), (16, 4), (100, 4)])
def test_a_quarter_of_the_nodes_may_be_left_out(count, excluded):
    assert max_excluded(count) == excluded


def report(*bad: int) -> PreflightReport:
    """The report on four nodes, some of which did not answer."""
    problems = dict.fromkeys(bad, "it did not answer")
    return PreflightReport.of([NodeCheck(f"n{i}", problems.get(i, "")) for i in range(4)], ())


def test_a_job_runs_on_the_good_nodes_with_the_plans_for_as_many_or_ends():
    smaller = ("three", "two")
    assert conclusion_of(report(), smaller) == (None, (), "")
    assert conclusion_of(report(0), smaller) == (None, (1, 2, 3), "three")
    assert conclusion_of(report(1, 3), smaller) == (None, (0, 2), "two")
    (error,) = conclusion_of(report(1, 2, 3), smaller).outcome.errors
    assert error["code"] == CODE
    assert "n2 is bad: it did not answer" in error["message"]
    assert "At most 2 of its nodes can be left out." in error["message"]
