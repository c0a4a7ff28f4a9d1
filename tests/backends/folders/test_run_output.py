"""What is read of a run: its logs while its ranks write, its record files, and its parameters."""

import json
from pathlib import Path

import pytest

from batchai_magics.backends.base import Span
from batchai_magics.backends.folders import rank_files, run_output
from batchai_magics.backends.folders.run_output import Logs
from batchai_magics.backends.node.job_layout import JobLayout
from batchai_magics.backends.node.ranks.output_streams import SPAN
from batchai_magics.backends.service.run_labels import RunRecords
from batchai_magics.errors import StorageError
from batchai_magics.models.runs.labels import LabelChange
from batchai_magics.records.artifacts import artifacts_in
from tests.backends.local.still import no_supervisor, still

__all__ = ["no_supervisor", "still"]


def test_files_are_read_by_name_and_by_folder(tmp_path):
    (tmp_path / "machines").mkdir()
    for name in ("a.json", "machines/b", "machines/a", "machines/c.part"):
        (tmp_path / name).write_text(name)
    found = run_output.read_records(tmp_path, ["a.json", "machines/", "machines", "none", "none/"])
    complete = {name: name.encode() for name in ("a.json", "machines/a", "machines/b")}
    assert found == {**complete, "machines/c.part": b""}
    with pytest.raises(StorageError):
        run_output.read_records(tmp_path, ["../a.json"])


class Requests(list):
    """The names that are requested; before they are looked through again, files are written."""

    def __init__(self, names, write):
        super().__init__(names)
        self._writes = [lambda: None, write]

    def __iter__(self):
        self._writes.pop(0)()
        return super().__iter__()


def test_a_record_that_is_completed_during_a_read_is_in_the_next_one(tmp_path):
    part, complete = tmp_path / "machines" / "node-1.part", tmp_path / "machines" / "node-1"
    part.parent.mkdir()
    part.write_text("node-1")
    requests = Requests(["machines/"], lambda: part.rename(complete))
    assert run_output.read_records(tmp_path, requests) == {}
    assert complete.exists()
    assert run_output.read_records(tmp_path, ["machines/"]) == {"machines/node-1": b"node-1"}


def test_an_artifact_that_is_saved_during_a_read_is_not_taken_for_complete(tmp_path):
    """Its record is written once its copy has begun, and the copy is renamed at its end."""
    folder = tmp_path / "artifacts"
    folder.mkdir()
    saved = {
        "name": "m",
        "path": "m",
        "size": 1,
        "step": None,
        "sha256": "",
        "time": 1.0,
        "rank": 0,
        "attempt": 1,
    }
    record = json.dumps({**saved, "part": "0.part"}) + "\n"

    def save():
        (folder / "0.part").write_text("copy")
        (folder / "0.jsonl").write_text(record)

    found = run_output.read_records(tmp_path, Requests(["artifacts/"], save))
    assert artifacts_in(found) == []
    assert artifacts_in(run_output.read_records(tmp_path, ["artifacts/"])) == []
    (folder / "0.part").unlink()
    assert [each.name for each in artifacts_in(run_output.read_records(tmp_path, ["artifacts/"]))] == ["m"]


def test_logged_parameters_hold_no_secret(tmp_path):
    file = tmp_path / "parameters.json"
    file.write_text(json.dumps({"lr": 0.1, "api_key": "hush", "url": "https://me:pw@host", "list": [1]}))
    assert rank_files.logged_in(file) == {"lr": 0.1, "api_key": "***", "url": "https://***@host"}


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": NaN}'])
def test_a_file_without_parameters_has_none(tmp_path, text):
    file = tmp_path / "parameters.json"
    file.write_text(text)
    assert rank_files.logged_in(file) == {}


def test_logged_parameters_replace_the_command_lines(still):
    still.cluster()
    job = still.job()
    context = still.context()
    RunRecords(context).relabel(job, LabelChange(parameters={"lr": 0.1, "model": "a"}))
    file = still.layout.job(context.repository.get(job).guid).records / "parameters.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text('{"lr": 0.5}')
    assert RunRecords(context).labels([job])[job.key].parameters == {"lr": 0.5, "model": "a"}


@pytest.fixture
def job(tmp_path: Path) -> JobLayout:
    """A job with a log of two lines, of which one is known to be rank 1's."""
    job = JobLayout(tmp_path / "job")
    job.spans("stdout").parent.mkdir(parents=True, exist_ok=True)
    job.spans("stdout").write_bytes(SPAN.pack(0, 4, 1))
    (tmp_path / "stdout.txt").write_bytes(b"one\ntwo\n")
    return job


def test_line_is_not_shown_before_its_writer_is_recorded(job, tmp_path):
    logs = Logs(tmp_path, job, is_open=True)
    chunk = logs.read("stdout.txt", 0, 100)
    assert (chunk.data, chunk.size, chunk.spans) == (b"one\n", 4, (Span(0, 4, 1),))
    assert logs.read("stdout.txt", 0, 0).size == 4
    rest = logs.tail({"stdout.txt": 4}, 100)["stdout.txt"]
    assert (rest.data, rest.end, rest.size) == (b"", 4, 4)
    with job.spans("stdout").open("ab") as spans:
        spans.write(SPAN.pack(4, 8, 0))
    assert logs.tail({"stdout.txt": 4}, 100)["stdout.txt"].spans == (Span(4, 8, 0),)


def test_unsigned_log_is_shown_when_the_job_is_over(job, tmp_path):
    assert Logs(tmp_path, job, is_open=False).read("stdout.txt", 0, 100).data == b"one\ntwo\n"
