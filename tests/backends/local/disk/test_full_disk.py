"""On a disk without a free byte jobs are cancelled and deleted, also when the reserve is used up."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.backends.local.state.store import RESERVE_BYTES
from batchai_magics.errors import StorageError
from batchai_magics.follow import Follower, LogFault
from batchai_magics.models.resource_ids import Kind
from tests.backends.local.disk.test_small_disk import SLEEP
from tests.backends.local.namespace import fill, mount_small, scene, tell
from tests.world import World, processes_of, until

pytestmark = pytest.mark.slow

TALKS = """
import os, time
print('up', flush=True)
while not os.path.exists('{go}'): time.sleep(0.05)
os.write(1, b'0123456789\\n' * 500)
open('{said}', 'w').close()
time.sleep(1000)
"""
ENDED = [["a", "JobTerminated"], ["c", "JobTerminated"]]


def small_disk(home: Path, *, disk_grace_s: float = 60.0) -> World:
    """A world on a file system of 12 MB."""
    mount_small(home)
    return World(home / "state", limits=LocalSettings(disk_grace_s=disk_grace_s))


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
    world = small_disk(home)
    four_jobs(world)
    fill(home)
    (world.home / "reserve").unlink()
    fill(home)
    for name, change in zip("cdba", ("terminate", "delete", "delete", "terminate"), strict=True):
        getattr(world.backend, change)(world.job_id(name))
    until(lambda: all(job.state.is_final for job in world.backend.list(world.experiment, Kind.JOB)))
    tell(ends(world))
    (home / "ballast").unlink()
    tell(world.run("after", "print('room again')").log())
    tell((world.home / "reserve").stat().st_size)
    world.close()


def used_by_a_supervisor_that_is_gone(home: Path) -> None:
    """A supervisor used the reserve, others ate what it gave, and nobody has the database open."""
    world = small_disk(home)
    job = world.submit("a", SLEEP)
    until(lambda: job.log() == "up\n")
    for name in "cde":
        world.submit(f"{name} --nodes 2", SLEEP)
    fill(home)
    world.backend.store.reserve.release_slice()
    fill(home)
    world.supervisor(job).kill()
    world.backend.store.close()
    until(lambda: not processes_of(world.home))
    fill(home)
    for name, change in zip("cda", ("terminate", "delete", "terminate"), strict=True):
        argv = ["-m", "batchai_magics.cli", "job", change, "-n", name, "--yes"]
        env = {"BATCHAI_HOME": str(world.home), "PATH": "/usr/bin:/bin"}
        done = subprocess.run([sys.executable, *argv], env=env, capture_output=True, text=True)
        tell([done.returncode, done.stderr])
    (home / "ballast").unlink()
    world.backend.delete(world.job_id("e"))
    tell(ends(world)[1:])
    tell((world.home / "reserve").stat().st_size)
    world.close()


def a_job_that_printed_what_no_disk_took(home: Path) -> None:
    """It is cancelled while the disk is full; then there is room again, and its log is read in all ways."""
    world = small_disk(home, disk_grace_s=2.0)
    go, said = home / "../go", home / "../said"
    job = world.submit("a", TALKS.format(go=go, said=said))
    until(lambda: job.log() == "up\n")
    fill(home)
    go.touch()
    until(said.exists)
    world.backend.terminate(job.id)
    job.wait()
    (home / "ballast").unlink()
    tell([line for line in job.log().splitlines() if "0123" not in line])
    with pytest.raises(StorageError) as refused:
        job.download("stdout.txt", home / "../to")
    tell(refused.value.message)
    news = Follower(world.backend, job.id).poll()
    faults = [event for event in news if isinstance(event, LogFault)]
    tell([f"{event.file.path} is not complete: {event.fault}" for event in faults])
    world.close()


def test_a_log_says_in_all_ways_what_a_full_disk_did_not_take(tmp_path: Path) -> None:
    home = tmp_path / "disk"
    home.mkdir()
    lines, refused, seen = scene(a_job_that_printed_what_no_disk_took, home)
    fault = r"stdout\.txt is not complete: its last [\d,]+ bytes are missing: the disk did not take them"
    assert re.fullmatch(fault, str(refused))
    assert seen == [refused]
    assert (lines[0], lines[-1]) == ("up", f"[{refused}]")


def test_jobs_end_on_a_full_disk_whose_reserve_is_used_up(tmp_path: Path) -> None:
    assert scene(used_up_under_an_open_store, tmp_path) == [ENDED, "room again\n", RESERVE_BYTES]


def test_a_command_of_its_own_ends_jobs_on_a_full_disk_after_a_supervisor_used_the_reserve(
    tmp_path: Path,
) -> None:
    told = scene(used_by_a_supervisor_that_is_gone, tmp_path)
    assert told == [[0, ""]] * 3 + [ENDED[1:], RESERVE_BYTES]
