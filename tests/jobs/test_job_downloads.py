"""A job's file on this machine: whole or not there, and nothing beside it touched."""

from pathlib import Path

import pytest

from batchai_magics.backends.base import Chunk
from batchai_magics.errors import NotFoundError, StorageError
from batchai_magics.jobs.job_handle import Job
from tests.widgets.scripted_job import JOB, ScriptedBackend


@pytest.fixture
def job(tmp_path):
    backend = ScriptedBackend(tmp_path / "job")
    backend.write("all of it\n")
    return Job(backend, JOB)


def test_a_file_of_the_users_that_ends_in_part_stays(job, tmp_path):
    (tmp_path / "stdout.txt.part").write_text("mine")
    assert job.download("stdout.txt", tmp_path).read_text() == "all of it\n"
    assert (tmp_path / "stdout.txt.part").read_text() == "mine"


def test_a_download_that_breaks_off_leaves_what_was_there(job, tmp_path):
    (tmp_path / "stdout.txt").write_text("before")

    def breaks(file, offset=0, limit=1 << 20):
        if offset:
            raise StorageError("gone")
        return Chunk(b"half", 0, 8, False)

    job.backend.read = breaks
    with pytest.raises(StorageError, match="gone"):
        job.download("stdout.txt", tmp_path)
    assert {path.name: path.read_text() for path in tmp_path.iterdir() if path.is_file()} == {
        "stdout.txt": "before"
    }


def test_a_place_that_cannot_be_written_is_named(job, tmp_path):
    (tmp_path / "stdout.txt").mkdir()
    with pytest.raises(StorageError, match=r"stdout\.txt cannot be written: Is a directory"):
        job.download("stdout.txt", tmp_path)
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".part")] == []


def test_two_first_downloads_at_once_share_the_folder(job, tmp_path, monkeypatch):
    mkdir = Path.mkdir

    def mkdir_after_another_download(path, *args, **options):
        if path == tmp_path / JOB.name:
            monkeypatch.setattr(Path, "mkdir", mkdir)
            job.download(to=tmp_path)
        mkdir(path, *args, **options)

    monkeypatch.setattr(Path, "mkdir", mkdir_after_another_download)
    folder = job.download(to=tmp_path)
    assert Path.mkdir is mkdir
    assert (folder / "stdouterr" / "stdout.txt").read_text() == "all of it\n"


def test_a_file_that_is_not_there_makes_none(job, tmp_path):
    with pytest.raises(NotFoundError, match=r"Available: stdout\.txt"):
        job.download("nope.txt", tmp_path)
    assert not (tmp_path / "nope.txt").exists()
