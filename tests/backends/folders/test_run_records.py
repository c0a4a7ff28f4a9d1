"""The record files of a run: read by name and folder, and the parameters that it has logged."""

import json

import pytest

from batchai_magics.backends.folders import rank_files, run_output
from batchai_magics.backends.service.run_labels import RunRecords
from batchai_magics.errors import StorageError
from batchai_magics.models.runs.labels import LabelChange
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


def test_logged_parameters_hold_no_secret(tmp_path):
    file = tmp_path / "parameters.json"
    file.write_text(json.dumps({"lr": 0.1, "api_key": "hush", "url": "https://me:pw@host", "list": [1]}))
    assert rank_files.logged_in(file) == {"lr": 0.1, "api_key": "***", "url": "https://***@host"}


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": NaN}'])
def test_a_file_without_parameters_has_none(tmp_path, text):
    file = tmp_path / "parameters.json"
    file.write_text(text)
    assert rank_files.logged_in(file) == {}


def test_logged_parameters_take_the_place_of_those_on_the_command_line(still):
    still.cluster()
    job = still.job()
    context = still.context()
    RunRecords(context).relabel(job, LabelChange(parameters={"lr": 0.1, "model": "a"}))
    file = still.layout.job(context.repository.get(job).guid).records / "parameters.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text('{"lr": 0.5}')
    assert RunRecords(context).labels([job])[job.key].parameters == {"lr": 0.5, "model": "a"}
