"""Headings of folds, seeds, trials and refits begin fits; other lines with these words do not."""

import pytest

from batchai_magics.metrics.measurement import FIT, Fact
from tests.metrics.program_samples import read

HEADINGS = {
    "Fold 1": "Fold 1",
    "===== FOLD 2/5 =====": "Fold 2",
    "Fold: 3": "Fold 3",
    "[Fold 4 of 5]": "Fold 4",
    "2026-01-02 10:00:00,123 - INFO - Starting fold 5...": "Fold 5",
    "INFO:trainer:Cross-validation fold 2/10": "Fold 2",
    "Train fold 3": "Fold 3",
    "seed=42": "Seed 42",
    "Running with seed 7": "Seed 7",
    "--- Split 2 ---": "Split 2",
    "Trial #3": "Trial 3",
    "Run 12 of 30": "Run 12",
    "Refitting on all data": "Refit on all data",
    "*** Refit ***": "Refit",
}


@pytest.mark.parametrize("line", HEADINGS)
def test_a_heading_names_its_fit(line):
    (fact,) = read(f"{line}\n".encode())
    assert (fact.key, fact.value) == (FIT, HEADINGS[line])


@pytest.mark.parametrize(
    "line",
    [
        "Trial 5 finished with value: 0.9",
        "seed 1 done",
        "run",
        "Fold 1 accuracy: 0.9",
        "the data is split 3 times",
        "Model outfit 3",
        "fold changes",
    ],
)
def test_other_lines_begin_no_fit(line):
    assert not [record for record in read(f"{line}\n".encode()) if isinstance(record, Fact)]


def test_headings_among_many_lines_of_prose_are_found():
    prose = b"the weather is fine today\n" * 50
    found = [record.value for record in read(prose + b"Fold 1\n" + prose + b"Fold 2\n" + prose)]
    assert found == ["Fold 1", "Fold 2"]
