"""Records of who wrote what, and when: read for a piece of a file, and no more of them than that."""

from __future__ import annotations

from pathlib import Path

import pytest

from batchai_magics.backends.node import output_records
from batchai_magics.backends.node.ranks.output_streams import SPAN, TIME


@pytest.fixture
def spans(tmp_path: Path) -> Path:
    """Rank 0 wrote 0 to 6 in two pieces, rank 1 to 9, rank 0 to 12; what follows is being written."""
    pieces = [(0, 4, 0), (4, 6, 0), (6, 9, 1), (9, 12, 0)]
    (tmp_path / "spans").write_bytes(b"".join(SPAN.pack(*piece) for piece in pieces) + b"torn")
    return tmp_path / "spans"


@pytest.mark.parametrize(
    ("piece", "expected"),
    [
        ((0, 12), [(0, 6, 0), (6, 9, 1), (9, 12, 0)]),
        ((5, 7), [(5, 6, 0), (6, 7, 1)]),
        ((6, 9), [(6, 9, 1)]),
        ((11, 99), [(11, 12, 0)]),
        ((12, 99), []),
        ((3, 3), []),
    ],
)
def test_each_byte_of_a_piece_has_its_rank(spans, piece, expected):
    assert output_records.writers(spans, *piece) == expected


def test_bytes_outside_spans_have_no_writer(tmp_path):
    (tmp_path / "spans").write_bytes(SPAN.pack(0, 4, 0) + SPAN.pack(6, 8, 0))
    assert output_records.writers(tmp_path / "spans", 0, 8) == [(0, 4, 0), (6, 8, 0)]


def test_without_records_the_only_process_wrote_every_byte(tmp_path):
    assert output_records.writers(tmp_path / "missing", 3, 9) == [(3, 9, 0)]
    assert output_records.writers(tmp_path / "missing", 9, 9) == []


@pytest.mark.parametrize(
    ("piece", "expected"),
    [
        ((0, 5), [(0, 7.5)]),
        ((9, 10), [(0, 7.5)]),
        ((15, 25), [(10, 8.5), (20, 9.5)]),
        ((15, 20), [(10, 8.5)]),
        ((30, 99), [(20, 9.5)]),
        ((5, 5), []),
    ],
)
def test_a_piece_has_the_times_of_its_bytes(tmp_path, piece, expected):
    stamps = [(0, 7.5), (10, 8.5), (20, 9.5)]
    (tmp_path / "times").write_bytes(b"".join(TIME.pack(*stamp) for stamp in stamps) + b"torn")
    assert output_records.times(tmp_path / "times", *piece) == expected
    assert output_records.times(tmp_path / "missing", *piece) == []


def test_bytes_whose_writer_is_not_recorded_yet_wait(tmp_path):
    spans = tmp_path / "spans"
    assert output_records.recorded_end(spans, 0, 8) == 8  # a lone process needs no record
    spans.write_bytes(b"")
    assert output_records.recorded_end(spans, 0, 8) == 0
    spans.write_bytes(SPAN.pack(0, 4, 0) + SPAN.pack(4, 6, 1))
    for piece, end in {(0, 8): 6, (2, 3): 3, (6, 8): 6, (7, 8): 7}.items():
        assert output_records.recorded_end(spans, *piece) == end
