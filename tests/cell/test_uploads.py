"""Files that go with a cell."""

import pytest

from tests.cell.parsed import JOB_JSON, cell, refused


def test_uploads_lie_beside_the_script(tmp_path):
    (tmp_path / "data.csv").write_bytes(b"1,2")
    (tmp_path / "util.py").write_bytes(b"x = 1")
    request = cell("r --upload data.csv util.py", folder=tmp_path)
    assert {path.rpartition("/")[2] for path in request.uploads} == {"r.py", "data.csv", "util.py"}
    assert len({path.rpartition("/")[0] for path in request.uploads}) == 1


def test_other_content_of_an_upload_goes_to_another_folder(tmp_path):
    (tmp_path / "data.csv").write_bytes(b"1")
    before = cell("r --upload data.csv", folder=tmp_path)
    (tmp_path / "data.csv").write_bytes(b"2")
    assert set(before.uploads).isdisjoint(cell("r --upload data.csv", folder=tmp_path).uploads)


def test_uploads_go_with_a_job_file_too(tmp_path):
    (tmp_path / "train.py").write_bytes(b"pass")
    request = cell("r --spec --upload train.py", JOB_JSON, folder=tmp_path)
    assert request.spec.input_directories[0].id == "SCRIPT"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("r --upload nope.py", "--upload nope.py: there is no such file"),
        ("r --upload folder", "--upload folder: this is a folder"),
        ("r --upload a.txt folder/a.txt", "two files are called a.txt"),
        ("r --upload r.py", "the script itself has that name"),
        ("r --input SCRIPT=/x", "the input id SCRIPT is taken"),
    ],
)
def test_uploads_that_cannot_be_are_refused(line, told, tmp_path):
    (tmp_path / "folder").mkdir()
    for name in ("a.txt", "folder/a.txt", "r.py"):
        (tmp_path / name).write_text("x")
    assert told in refused(line, folder=tmp_path)
