"""The record of a submission as text, and which records come with a job."""

import json

import pytest

from batchai_magics.models.runs.labels import LabelChange, Labels
from batchai_magics.models.runs.watch_request import WatchRequest
from batchai_magics.records.provenance import Provenance
from batchai_magics.records.record_checks import check_confined, check_submitted
from batchai_magics.records.record_files import CHANNELS, LABELS, MAX_BYTES, SUBMISSION, WATCH
from batchai_magics.records.submission import Code, GitState, Submission, Variable, shape_of

RECORD = Submission(
    Code("cell", "train.py", "print(1)"),
    submitted=12.5,
    line="train --nodes 2",
    variables={"data": Variable("ndarray", shape=(2, 3), dtype="float32", size_bytes=24, digest="sha256:0")},
    git=GitState("abc", "main", "https://host/x", diff="+1", untracked=("b",)),
    environment={"A": "1"},
    secrets=("TOKEN",),
)


def test_a_record_is_read_as_it_was_written():
    assert Submission.from_text(RECORD.to_text()) == RECORD
    assert Submission.from_text(RECORD._replace(git=None).to_text()).git is None


def test_fields_of_a_newer_version_are_ignored():
    data = json.loads(RECORD.to_text())
    assert Submission.from_text(json.dumps({**data, "version": 9, "mood": "good"})) == RECORD


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"code": 1}', "null"])
def test_text_that_is_no_record_is_refused(text):
    with pytest.raises(ValueError):  # noqa: PT011  JSON has its own subclass
        Submission.from_text(text)


def test_the_shape_of_a_value():
    assert [shape_of(value) for value in ([1, 2], "abc", 3, {"a": 1})] == [(2,), (3,), (), (1,)]


def test_uploads_are_named_as_the_script_sees_them():
    paths = {f"scripts/default/train/abc/src/{number}.py": "sha256:0" for number in range(12)}
    record = Submission(
        Code("cell", "train.py", ""), 0.0, uploads=paths, git=GitState("abc", diff="diff --git a b")
    )
    facts = dict(Provenance("train", record).facts())
    assert facts["uploads"].startswith("src/0.py, src/1.py, ")
    assert facts["uploads"].endswith("src/9.py, and 2 more")
    assert facts["git"].endswith("1 file changed")


def test_a_change_of_labels_keeps_what_it_does_not_name():
    labels = Labels(("a", "b"), "old", {"lr": 0.1}, {"score": "s=(.)"})
    change = LabelChange.from_json(LabelChange(("B", "c"), ("A",), parameters={"x": 1}).to_json())
    assert change.applied(labels) == Labels(("b", "c"), "old", {"lr": 0.1, "x": 1}, {"score": "s=(.)"})
    assert Labels.from_json(labels.to_json()) == labels
    assert LabelChange(note="").applied(labels).note == ""


def test_a_submitter_sends_the_records_of_a_submitter():
    check_submitted({SUBMISSION: "{}", LABELS: "{}"})


@pytest.mark.parametrize("name", ["machines/a.json", "../submission.json", "end.json", ""])
def test_records_that_no_submitter_sends_are_refused_by_name(name):
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
def test_a_job_in_a_container_runs_nothing_outside_the_image(files):
    check_submitted(files)
    with pytest.raises(ValueError, match="outside the image"):
        check_confined(files)


def test_a_job_in_a_container_may_notify_over_the_network():
    check_confined({CHANNELS: '["https://hooks.example/x", "slack://a/b"]'})


@pytest.mark.parametrize("text", ['"https://x"', "[1]", '["a\\nb"]'])
def test_invalid_notification_addresses_are_refused_without_repeating_them(text):
    with pytest.raises(ValueError, match=r"URL or a command|array of texts"):
        check_submitted({CHANNELS: text})
