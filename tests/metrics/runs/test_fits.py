"""Fits are named by the headings above them, segments of a metric by their fit or their number."""

from __future__ import annotations

from batchai_magics.metrics.measurement import FIT, TOTAL, Fact
from batchai_magics.metrics.runs.fits import NO_FIT, Fit, FitHeadings, Segments


def fits(*headings, rank=None):
    entered, found = FitHeadings(), []
    for heading in headings:
        entered.enter(Fact(FIT, heading, rank))
        found.append(entered.of(rank))
    return found


def segments(*values):
    """The name of the segment of each value, given its position and fit."""
    of_metric, names = Segments(), []
    for position, fit in values:
        of_metric.add(position, fit)
        names.append(of_metric.name)
    return names


def test_headings_of_one_kind_follow_each_other():
    assert fits("Fold 1", "Fold 2") == [Fit(1, "Fold 1"), Fit(2, "Fold 2")]


def test_a_heading_that_is_printed_again_begins_nothing():
    assert fits("Fold 1", "Fold 1", "Fold 2")[1:] == [Fit(1, "Fold 1"), Fit(2, "Fold 2")]


def test_an_outer_heading_ends_the_inner_ones():
    names = [fit.name for fit in fits("Seed 1", "Fold 1", "Fold 2", "Seed 2", "Fold 1")]
    assert names == ["Seed 1", "Seed 1, Fold 1", "Seed 1, Fold 2", "Seed 2", "Seed 2, Fold 1"]


def test_a_refit_is_below_no_fold():
    assert [fit.name for fit in fits("Fold 1", "Refit")] == ["Fold 1", "Refit"]


def test_ranks_have_headings_of_their_own_and_others_the_latest():
    headings = FitHeadings()
    assert headings.of(0) == NO_FIT
    for rank, heading in ((0, "Fold 1"), (1, "Fold 4"), (1, "Fold 5")):
        headings.enter(Fact(FIT, heading, rank))
    assert headings.of(0) == Fit(1, "Fold 1")
    assert headings.of(1) == headings.of(7) == Fit(2, "Fold 5")


def test_other_facts_begin_no_fit():
    headings = FitHeadings()
    headings.enter(Fact(TOTAL, "479"))
    assert headings.of(None) == NO_FIT


def test_a_position_that_repeats_below_another_heading_begins_a_segment():
    first, second = fits("Fold 1", "Fold 2")
    assert segments((1, first), (1, second)) == ["Fold 1", "Fold 2"]


def test_a_second_segment_of_a_fit_has_its_number():
    (first,) = fits("Fold 1")
    assert segments((2, first), (1, first)) == ["Fold 1", "2"]


def test_fits_of_one_name_are_told_apart_by_their_number():
    first, _, again = fits("Fold 1", "Fold 2", "Fold 1")
    assert segments((2, first), (1, again)) == ["Fold 1", "Fold 1, 2"]
