"""What moves from a node's disk to the folder of a run, what stays, and why."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from batchai_magics.backends.slurm.node import scratch
from batchai_magics.backends.slurm.node.scratch import MoveResult, Space

MUCH = Space(1 << 30, float("inf"))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "disk" / "batchai-guid" / "node"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def target(tmp_path: Path) -> Path:
    (tmp_path / "run" / "workdir").mkdir(parents=True)
    return tmp_path / "run" / "workdir" / "node"


def move(source: Path, target: Path, space: Space = MUCH) -> MoveResult:
    return scratch.move(source, target, target.parents[1] / "collected" / "node.json", space)


def test_all_that_holds_something_moves_as_it_is(source, target, monkeypatch):
    (source / "a" / "empty").mkdir(parents=True)
    (source / "a" / "run.sh").write_text("#!")
    (source / "a" / "run.sh").chmod(0o700)
    os.utime(source / "a" / "run.sh", (1, 1))
    (source / "link").symlink_to("a/run.sh")
    os.mkfifo(source / "pipe")
    (source / os.fsdecode(b"bad\xff")).write_text("x")
    monkeypatch.chdir(source)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("socket")
    assert move(source, target) == MoveResult(3)
    assert sorted(path.name for path in target.iterdir()) == ["a", os.fsdecode(b"bad\xff"), "link", "pipe"]
    found = (target / "a" / "run.sh").stat()
    assert (found.st_mode & 0o777, found.st_mtime) == (0o700, 1)
    assert (target / "link").readlink() == Path("a/run.sh")
    assert (target / "pipe").is_fifo()
    assert (target / "a" / "empty").is_dir()
    assert not source.parent.exists()


def test_a_second_attempt_goes_on_within_the_same_limit(source, target):
    for name in "abcd":
        (source / name).write_bytes(bytes(400))
    assert move(source, target, Space(800, 0.0)) == MoveResult(0, 4, 1600, scratch.TOO_LATE)
    assert move(source, target, Space(800, float("inf"))) == MoveResult(800, 2, 800, scratch.LIMIT_REACHED)
    assert move(source, target, Space(800, float("inf"))) == MoveResult(800, 2, 800, scratch.LIMIT_REACHED)


def test_a_node_on_which_nothing_ran_has_nothing_to_move(source, target):
    source.rmdir()
    assert move(source, target) == MoveResult()
    assert MoveResult.read(target.parents[1] / "collected" / "node.json") == MoveResult()


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of a megabyte."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(folder)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("this user may not mount a small file system")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.slow
def test_on_a_full_disk_files_stay_where_they_were(source, small):
    (small / "workdir").mkdir()
    for number in range(4):
        (source / f"file-{number}").write_bytes(bytes(400 << 10))
    end = move(source, small / "workdir" / "node")
    assert (end.left, end.reason) == (2, "there was no room in slurm.home")
    kept = [*(small / "workdir" / "node").iterdir(), *source.iterdir()]
    assert sorted((path.name, path.stat().st_size) for path in kept) == [
        (f"file-{number}", 400 << 10) for number in range(4)
    ]
    assert [path.name for path in small.iterdir() if path.is_file()] == []


def test_the_time_is_over_in_the_middle_of_a_file_too(source, target):
    (source / "large").write_bytes(bytes(10 << 20))
    times = iter([0.0, 0.0, 0.0])  # for the lock, the file, its first piece
    space = Space(1 << 30, 1.0, clock=lambda: next(times, 2.0))
    assert move(source, target, space) == MoveResult(0, 1, 10 << 20, scratch.TOO_LATE)
    assert (list(target.iterdir()), [path.name for path in target.parents[1].glob("*.part")]) == ([], [])
