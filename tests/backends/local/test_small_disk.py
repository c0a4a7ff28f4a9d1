"""On a full or read-only disk the state stays honest, and jobs can be ended, also without a reserve."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from batchai_magics.backends.base import FileRef
from batchai_magics.backends.local.backend import LocalBackend
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.backends.local.state.store import RESERVE_BYTES
from batchai_magics.errors import BatchAIError, StorageError
from batchai_magics.jobs.job_handle import Job
from batchai_magics.models.resource_ids import Kind
from tests.backends.local.namespace import scene, tell
from tests.patience import PATIENCE_S
from tests.small_disk import SmallDisk
from tests.world import FOLLOWED, World, processes_of, until

pytestmark = pytest.mark.slow

SLEEP = "import time\nprint('up', flush=True)\ntime.sleep(1000)"


def small_disk(folder: Path, *, disk_grace_s: float = 60.0) -> tuple[SmallDisk, World]:
    """A world on a file system of 12 MB."""
    disk = SmallDisk(folder / "disk")
    return disk, World(disk.folder / "state", limits=LocalSettings(disk_grace_s=disk_grace_s))


def on_a_full_disk(home: Path) -> None:
    """A job fills a file system of 12 MB, and another one is submitted where not a byte is free."""
    disk, world = small_disk(home, disk_grace_s=0.5)
    job = world.run("fill", "import sys\nfor _ in range(40): sys.stdout.write('z' * (1 << 20))")
    (error,) = job.show().execution.errors
    seal = world.backend.read(FileRef(job.id, "stdout.txt")).seal
    tell([job.state.value, error.code, bool(seal and seal.sha256 and seal.lost_bytes)])
    assert "bytes are missing: the disk did not take them" in job.log()[-200:]
    for path in home.rglob("stdout.txt"):
        path.unlink()
    tell(world.run("after", "print('room again')").log())
    disk.fill()
    names = [item.id.name for item in world.backend.list(world.experiment, Kind.JOB)]
    try:
        world.submit("refused", "print(1)" + "#" * 100_000)
    except BatchAIError as error:
        tell(type(error).__name__)
    disk.free()
    assert [item.id.name for item in world.backend.list(world.experiment, Kind.JOB)] == names
    world.close()


def job_that_fills_the_disk(home: Path) -> None:
    """A script fills the disk of its home and fails; its traceback finds no room, nor ever will."""
    disk, world = small_disk(home, disk_grace_s=10 * PATIENCE_S)
    script = f"file = open('{disk.folder}/ballast', 'wb', 0)\nwhile True: file.write(bytes(4096))"
    error = world.run("fill", script).error
    tell([error.exit_code, error.cause.replace(str(home), "")])
    disk.free()
    world.close()


HELD = """
import os, sys, time
print("up", flush=True)
while os.path.exists(sys.argv[1]):
    time.sleep(0.01)
sys.exit(int(sys.argv[2]))
"""


def codes_on_a_full_disk(home: Path) -> None:
    """Jobs end by themselves while not a byte is free, the reserve apart."""
    disk, world = small_disk(home)
    (home / "hold").touch()
    jobs = [world.submit(f'j{code} --args "{home}/hold {code}"', HELD) for code in (0, 7)]
    until(lambda: all(job.log() == "up\n" for job in jobs))
    disk.fill()
    (home / "hold").unlink()
    tell([[job.wait(PATIENCE_S).state.value, job.exit_code] for job in jobs])
    tell([[rank.exit_code for rank in job.ranks()] for job in jobs])
    disk.free()
    world.close()


def listing_a_read_only_home(home: Path) -> None:
    """A home is listed and read on a disk that takes nothing."""
    disk, world = small_disk(home)
    ran, lost = world.run("ran", "print('hello')"), world.submit("lost", SLEEP)
    until(lambda: lost.log() == "up\n")
    FOLLOWED.discard(world.backend)  # it would record the end of the job while the disk takes it
    world.supervisor(lost).kill()
    until(lambda: not processes_of(world.home))
    world.backend.close()
    closing = ["mount", "-o", "remount,ro", str(disk.folder)]  # refused while a dying process has a file open
    until(lambda: subprocess.run(closing, capture_output=True).returncode == 0)
    backend = LocalBackend(LocalSettings(home=world.home))
    tell([item.id.name for item in backend.list(world.experiment, Kind.JOB)])
    tell([Job(backend, ran.id).log(), Job(backend, lost.id).log()])
    for change in (backend.terminate, backend.delete):
        try:
            change(lost.id)
        except StorageError as error:
            tell(error.code)
    shown = ["-m", "batchai_magics.cli", "job", "list", "-o", "json"]
    env = {**os.environ, "BATCHAI_HOME": str(world.home), "TMPDIR": "/tmp"}
    done = subprocess.run([sys.executable, *shown], env=env, capture_output=True, text=True)
    tell([job["name"] for job in json.loads(done.stdout or f'"{done.stderr}"')])


def cleaning_a_full_disk(home: Path) -> None:
    """A home is cleaned while not a byte is free, the reserve apart."""
    disk, world = small_disk(home)
    world.run("ran", "print('hello')")
    until(lambda: not processes_of(world.home))
    world.backend.close()
    disk.fill()
    LocalBackend(LocalSettings(home=world.home)).cleaning.clean()
    tell(sorted(path.name for path in world.home.glob("state.db*")))


def test_home_on_full_disk_can_be_cleaned(tmp_path: Path) -> None:
    assert scene(cleaning_a_full_disk, tmp_path) == [[]]


def test_a_full_disk_fails_the_job_clearly_and_loses_nothing(tmp_path: Path) -> None:
    told = scene(on_a_full_disk, tmp_path)
    assert told == [["failed", "DiskFull", True], "room again\n", "StorageError"]


def test_job_that_fills_the_disk_fails_soon_and_names_the_disk(tmp_path: Path) -> None:
    ((exit_code, cause),) = scene(job_that_fills_the_disk, tmp_path)
    assert exit_code == 1
    assert "The disk that holds the job's output is full: free some space in /disk/state/" in cause


def test_a_read_only_home_is_listed_and_read_and_refuses_changes(tmp_path: Path) -> None:
    names = ["ran", "lost"]
    told = scene(listing_a_read_only_home, tmp_path)
    lost = "up\n\n[The last log lines may be missing: the job was killed]\n"
    assert told == [names, ["hello\n", lost], "StoreReadOnly", "StoreReadOnly", names]


def test_job_that_ends_on_a_full_disk_keeps_its_exit_code(tmp_path: Path) -> None:
    told = scene(codes_on_a_full_disk, tmp_path)
    assert told == [[["succeeded", 0], ["failed", 7]], [[0], [7]]]


ENDED = [["a", "JobTerminated"], ["c", "JobTerminated"]]


def four_jobs(world: World) -> None:
    """Two that run, and two that wait for nodes."""
    running = [world.submit(name, SLEEP) for name in "ab"]
    until(lambda: all(job.log() == "up\n" for job in running))
    for name in "cd":
        world.submit(f"{name} --nodes 2", SLEEP)


def ends(world: World) -> list[tuple[str, str]]:
    jobs = world.backend.list(world.experiment, Kind.JOB)
    return [(job.id.name, job.execution.errors[0].code) for job in jobs]


def used_up_under_an_open_store(home: Path) -> None:
    """The reserve was used, and what it gave is full as well: nothing needs a new block."""
    disk, world = small_disk(home)
    four_jobs(world)
    disk.fill()
    (world.home / "reserve").unlink()
    disk.fill()
    for name, change in zip("cdba", ("terminate", "delete", "delete", "terminate"), strict=True):
        getattr(world.backend, change)(world.job_id(name))
    until(lambda: all(job.state.is_final for job in world.backend.list(world.experiment, Kind.JOB)))
    tell(ends(world))
    disk.free()
    tell(world.run("after", "print('room again')").log())
    tell((world.home / "reserve").stat().st_size)
    world.close()


def used_by_a_supervisor_that_is_gone(home: Path) -> None:
    """A supervisor used the reserve, others ate what it gave, and nobody has the database open."""
    disk, world = small_disk(home)
    job = world.submit("a", SLEEP)
    until(lambda: job.log() == "up\n")
    for name in "cde":
        world.submit(f"{name} --nodes 2", SLEEP)
    disk.fill()
    world.backend.store.reserve.release_slice()
    disk.fill()
    FOLLOWED.discard(world.backend)  # it would open the database, and start the next job
    world.supervisor(job).kill()
    world.backend.store.close()
    until(lambda: not processes_of(world.home))
    disk.fill()
    for name, change in zip("cda", ("terminate", "delete", "terminate"), strict=True):
        argv = ["-m", "batchai_magics.cli", "job", change, "-n", name, "--yes"]
        settings = str(home / "config.yaml")  # not those of the person running the tests
        env = {"BATCHAI_HOME": str(world.home), "BATCHAI_CONFIG": settings, "PATH": "/usr/bin:/bin"}
        done = subprocess.run([sys.executable, *argv], env=env, capture_output=True, text=True)
        tell([done.returncode, done.stderr])
    disk.free()
    world.backend.delete(world.job_id("e"))
    tell(ends(world)[1:])
    tell((world.home / "reserve").stat().st_size)
    world.close()


def test_jobs_end_on_a_full_disk_whose_reserve_is_used_up(tmp_path: Path) -> None:
    assert scene(used_up_under_an_open_store, tmp_path) == [ENDED, "room again\n", RESERVE_BYTES]


def test_new_process_can_end_jobs_on_a_full_disk_after_a_supervisor_used_the_reserve(
    tmp_path: Path,
) -> None:
    told = scene(used_by_a_supervisor_that_is_gone, tmp_path)
    assert told == [[0, ""]] * 3 + [ENDED[1:], RESERVE_BYTES]
