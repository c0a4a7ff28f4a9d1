"""Which record files come with a job."""

import pytest

from batchai_magics.records.record_files import LABELS, MAX_BYTES, SUBMISSION, check_submitted


def test_a_submitter_sends_the_records_of_a_submitter():
    check_submitted({SUBMISSION: "{}", LABELS: "{}"})


@pytest.mark.parametrize("name", ["machines/a.json", "../submission.json", "end.json", ""])
def test_any_other_record_is_refused_by_name(name):
    with pytest.raises(ValueError, match="is not a record that comes with a job"):
        check_submitted({name: "{}"})


def test_records_are_bounded_in_bytes():
    with pytest.raises(ValueError, match="at most"):
        check_submitted({SUBMISSION: "é" * (MAX_BYTES // 2 + 1)})
