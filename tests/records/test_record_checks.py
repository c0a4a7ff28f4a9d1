"""Which record files come with a job."""

import pytest

from batchai_magics.models.runs.watch_request import WatchRequest
from batchai_magics.records.record_checks import check_confined, check_submitted
from batchai_magics.records.record_files import CHANNELS, LABELS, MAX_BYTES, SUBMISSION, WATCH


def test_a_submitter_sends_the_records_of_a_submitter():
    check_submitted({SUBMISSION: "{}", LABELS: "{}"})


@pytest.mark.parametrize("name", ["machines/a.json", "../submission.json", "end.json", ""])
def test_any_other_record_is_refused_by_name(name):
    with pytest.raises(ValueError, match="is not a record that comes with a job"):
        check_submitted({name: "{}"})


def test_records_are_bounded_in_bytes():
    with pytest.raises(ValueError, match="at most"):
        check_submitted({SUBMISSION: "é" * (MAX_BYTES // 2 + 1)})


@pytest.mark.parametrize(
    "files",
    [
        {CHANNELS: '["touch /tmp/x"]'},
        {WATCH: WatchRequest("r", "e", exports=("tensorboard=/srv",)).to_json()},
    ],
)
def test_a_job_in_a_container_gets_nothing_outside_it(files):
    check_submitted(files)
    with pytest.raises(ValueError, match="outside the image"):
        check_confined(files)


def test_a_job_in_a_container_may_notify_over_the_network():
    check_confined({CHANNELS: '["https://hooks.example/x", "slack://a/b"]'})


@pytest.mark.parametrize("text", ['"https://x"', "[1]", '["a\\nb"]'])
def test_addresses_that_are_none_are_refused_and_not_repeated(text):
    with pytest.raises(ValueError, match=r"URL or a command|array of texts"):
        check_submitted({CHANNELS: text})
