"""The files of a job: all of them, by the names that people give them, and copied to this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from batchai_magics.backends.base import Chunk
from batchai_magics.errors import NotFoundError, StorageError
from batchai_magics.jobs import job_files
from batchai_magics.jobs.job_files import in_order, listed_paths_of, named_files
from batchai_magics.jobs.job_handle import Job
from batchai_magics.models.job_execution import OutputFile
from tests.widgets.scripted_job import JOB
from tests.world import World

DEEP = """
import os
for _ in range(20):
    os.mkdir("d" * 250)
    os.chdir("d" * 250)
open("bottom", "w").close()
"""


@pytest.mark.slow
def test_a_list_of_too_many_files_is_cut_off_with_a_warning(world: World) -> None:
    job = world.run("many", "for number in range(9): open(f'file-{number}', 'w').close()")
    every = [file.path for file in job.files()]
    assert len(every) == 12
    with pytest.warns(
        UserWarning, match="job many wrote more than 6 files and folders: the first are listed"
    ):
        listed = job_files.all_files(world.backend, job.show(), limit=6)
    assert [file.path for file in listed] == [*every[:2], *every[9:]]  # and the folder of the node


@pytest.mark.slow
def test_a_folder_that_is_too_deep_to_be_read_is_told(world: World) -> None:
    job = world.run("deep", DEEP)
    assert job.exit_code == 0
    with pytest.warns(UserWarning, match=r"job deep: the folder .*dd cannot be read: File name too long"):
        assert [file.name for file in job.files()] == ["stderr.txt", "stdout.txt", "execution.log"]


NODES = [f"tvm-1690037429_{number}-20261121t033128z-p" for number in (1, 2)]
SENT = {"train.py", "data/x.csv"}
IN_ORDER = (
    ("artifacts", "best/model.pt"),
    ("workdir", f"{NODES[0]}/outputs/loss.png"),
    ("MODEL", "weights.h5"),
    ("workdir", f"{NODES[0]}/model.pt"),
    ("workdir", f"{NODES[0]}/data/y.csv"),
    ("workdir", f"{NODES[1]}/model.pt"),
    ("checkpoints", "step-5.pt"),
    ("workdir", f"{NODES[0]}/train.py"),
    ("workdir", f"{NODES[0]}/data/x.csv"),
    ("stdouterr", "stdout.txt"),
    ("stdouterr", f"execution-{NODES[0]}.log"),
    ("stdouterr", f"stdout-job_prep-{NODES[1]}.txt"),
    ("workdir", f"{NODES[0]}/__pycache__/helper.pyc"),
)


def listed(*names: tuple[str, str]) -> list[OutputFile]:
    return [OutputFile.regular(path, directory_id=directory) for directory, path in names]


def test_results_come_first_and_internal_files_last() -> None:
    mixed = listed(*sorted(IN_ORDER, key=lambda pair: pair[1][::-1]))
    found = in_order(mixed, SENT)
    origins = [IN_ORDER.index((file.directory_id, file.path)) for file in found]
    assert [origin in (0, 1) for origin in origins[:2]] == [True, True]
    assert set(origins[2:6]) == {2, 3, 4, 5}
    assert origins[6] == 6
    assert set(origins[7:9]) == {7, 8}
    assert origins[9] == 9
    assert set(origins[10:]) == {10, 11, 12}


def test_nodes_have_short_names() -> None:
    assert listed_paths_of(listed(*IN_ORDER))[3] == "workdir/node-1/model.pt"
    assert listed_paths_of(listed(*IN_ORDER))[10] == "stdouterr/execution-node-1.log"


def test_nodes_with_equal_short_names_keep_their_full_names() -> None:
    again = NODES[0].replace("1121t", "1122t")
    files = listed(("workdir", f"{NODES[0]}/a"), ("workdir", f"{again}/a"), ("workdir", f"{NODES[1]}/a"))
    assert listed_paths_of(files) == [f"workdir/{NODES[0]}/a", f"workdir/{again}/a", "workdir/node-2/a"]


@pytest.mark.parametrize(
    ("path", "copies"),
    [
        ("artifacts", ["artifacts/best/model.pt"]),
        ("artifacts/best/", ["best/model.pt"]),
        ("weights.h5", ["weights.h5"]),
        ("loss.png", ["loss.png"]),
        ("outputs", ["outputs/loss.png"]),
        ("best/model.pt", ["model.pt"]),
        ("workdir/node-2", ["node-2/model.pt"]),
        ("node-2/model.pt", ["model.pt"]),
        (f"workdir/{NODES[1]}/model.pt", ["model.pt"]),
        ("data", ["data/y.csv", "data/x.csv"]),
    ],
)
def test_a_file_is_named_as_listed_or_by_an_end_that_no_other_has(path: str, copies: list[str]) -> None:
    assert [copy for _, copy in named_files(listed(*IN_ORDER), path)] == copies


@pytest.mark.parametrize(
    ("path", "message", "hint"),
    [
        ("model.pt", "several files are called model.pt", "workdir/node-1/model.pt, workdir/node-2/model.pt"),
        ("modle.pt", "there is no file modle.pt", 'Did you mean "model.pt"?'),
        ("xyz", "there is no file xyz", "Available: artifacts/best/model.pt"),
    ],
)
def test_a_name_of_no_file_or_several_lists_the_files(path: str, message: str, hint: str) -> None:
    with pytest.raises(NotFoundError, match=message) as caught:
        named_files(listed(*IN_ORDER), path)
    assert hint in caught.value.hint


@pytest.fixture
def job(backend):
    backend.write("all of it\n")
    return Job(backend, JOB)


def test_a_file_of_the_users_that_ends_in_part_stays(job, tmp_path):
    (tmp_path / "stdout.txt.part").write_text("mine")
    assert job.download("stdout.txt", tmp_path).read_text() == "all of it\n"
    assert (tmp_path / "stdout.txt.part").read_text() == "mine"


def test_an_interrupted_download_leaves_the_previous_file(job, tmp_path):
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


def test_a_path_that_cannot_be_written_is_named(job, tmp_path):
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
