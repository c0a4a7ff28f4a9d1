"""The fits of a run by their headings, and the segments of its metrics."""

from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from batchai_magics.metrics.measurement import FIT, Fact, Measurement
from batchai_magics.metrics.measurement_table import MeasurementTable
from batchai_magics.metrics.runs.fits import FitHeadings, Segments

FIT_NAMES = ["", "Fold 1", "Fold 2"]


def test_fit_of_a_rank_is_that_of_its_own_heading_or_else_the_latest():
    records = [
        Fact(FIT, "Fold 1", rank=0),
        *(Measurement("loss", 0.5, rank=rank, offset=1) for rank in (0, 1)),
        Fact(FIT, "Fold 1", rank=1),
        Fact(FIT, "Fold 2", rank=1),
        *(Measurement("loss", 0.5, rank=rank, offset=2) for rank in (0, 1, 2)),
    ]
    headings = FitHeadings()
    (lines,) = headings.marked(MeasurementTable.of(records)).lines
    named = [(rank, headings.names[fit]) for rank, fit in zip(lines.ranks, lines.fits, strict=True)]
    assert named == [(0, "Fold 1"), (1, "Fold 1"), (0, "Fold 1"), (1, "Fold 2"), (2, "Fold 2")]


def segments_of(*parts, max_count=20):
    """The number and name of the segment that each value is in; `parts` are positions with their fits."""
    segments, found = Segments(FIT_NAMES, max_count), []
    for part in filter(None, parts):
        positions, fits = zip(*part, strict=True)
        is_rising = len({*fits}) == 1 and all(earlier <= later for earlier, later in pairwise(positions))
        for begin, end, *segment in segments.split(positions, fits, is_rising=is_rising):
            found += [segment] * (end - begin)
    return found


def test_segment_begins_if_the_position_decreases_or_repeats_below_another_heading():
    values = [(1, 1), (2, 1), (2, 1), (1, 1), (1, 2), (2, 0)]
    assert segments_of(values) == [
        [1, "Fold 1"],
        [1, "Fold 1"],
        [1, "Fold 1"],
        [2, "2"],
        [3, "Fold 2"],
        [3, "Fold 2"],
    ]


@example([(1, 0), (3, 0), (2, 0)], 2)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=12), st.integers(0, 12))
def test_values_that_come_in_parts_are_in_the_same_segments(values, cut):
    one_by_one = [[value] for value in values]
    assert segments_of(values) == segments_of(values[:cut], values[cut:]) == segments_of(*one_by_one)


def test_last_allowed_segment_has_all_further_values():
    values = [(1, 0)] * 2 + [(0, 0), (1, 0), (0, 1), (0, 2)]
    assert [number for number, _ in segments_of(values, max_count=2)] == [1, 1, 2, 2, 2, 2]
