"""Nobody in: whatever a job starts listens on loopback or not at all, from its preparation to its end."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.jobs.job_handle import Job
from batchai_magics.models.states import ExecutionState
from tests.backends.local.containers import DOCKER
from tests.patience import PATIENCE_S
from tests.world import World, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="only on Linux does /proc tell the sockets of others"),
]
TABLES = ("tcp", "tcp6", "udp", "udp6")
LISTENS, UNCONNECTED = "0A", "07"
LOOPBACK = ("0100007F", "0" * 24 + "01000000", "0" * 16 + "FFFF0000" + "0100007F")
RANKS = {"begun": 4, "initialized": 4, "talked": 4}  # the stages of SCRIPT, and who comes to each
# Each step waits until the test has looked at the sockets of all.
SCRIPT = """
import os, sys, time
def stage(name):
    open(os.environ["STAGES"] + f"/{name}-{os.environ['PMI_RANK']}", "w").close()
    while not os.path.exists(os.environ["STAGES"] + f"/{name}-seen"):
        time.sleep(0.01)
stage("begun")
from mpi4py import MPI
stage("initialized")
MPI.COMM_WORLD.allgather(bytes(1 << 20))
stage("talked")
print(os.environ["FI_PROVIDER"])
"""
PREPARATION = "touch $STAGES/prepared-0; until test -e $STAGES/prepared-seen; do sleep 0.01; done"


@pytest.fixture
def docker_world(tmp_path: Path) -> Iterator[World]:
    """A world whose containers inherit no descriptor."""
    program = tmp_path / "docker"
    program.write_text(DOCKER.format(python=sys.executable))
    program.chmod(0o755)
    made = World(tmp_path / "home", limits=LocalSettings(container_command=str(program)))
    yield made
    made.close()


def test_an_mpi_job_listens_nowhere(world: World, tmp_path: Path) -> None:
    job = world.submit(f'j --nodes 2 --processes 4 --env STAGES={tmp_path} --prep "{PREPARATION}"', SCRIPT)
    assert listeners(world, job, tmp_path, {"prepared": 1, **RANKS}) == [set()] * 4
    assert job.wait(PATIENCE_S).log().split() == ["shm"] * 4


def test_ranks_that_ask_for_tcp_themselves_listen_on_loopback_alone(world: World, tmp_path: Path) -> None:
    job = world.submit(
        f"j --nodes 2 --processes 4 --env FI_PROVIDER=tcp --env STAGES={tmp_path} --prep '{PREPARATION}'",
        SCRIPT,
    )
    found = listeners(world, job, tmp_path, {"prepared": 1, **RANKS})
    assert set[str]().union(*found) == {"loopback"}
    assert job.wait(PATIENCE_S).log().split() == ["tcp"] * 4


def test_ranks_that_inherit_nothing_are_served_on_loopback_alone(docker_world: World, tmp_path: Path) -> None:
    job = docker_world.submit(f"j --nodes 2 --processes 4 --image ours:1 --env STAGES={tmp_path}", SCRIPT)
    assert set[str]().union(*listeners(docker_world, job, tmp_path, RANKS)) == {"loopback"}
    assert job.wait(PATIENCE_S).state is ExecutionState.SUCCEEDED
    assert job.log().split() == ["tcp"] * 4


def listeners(world: World, job: Job, folder: Path, stages: dict[str, int]) -> list[set[str]]:
    """Where the processes of a job listen at each stage, which so many of them come to and wait at."""
    found = []
    for stage, count in stages.items():
        until(lambda stage=stage, count=count: len(list(folder.glob(f"{stage}-*"))) == count)
        found.append(listening(world, job))
        (folder / f"{stage}-seen").touch()
    return found


def listening(world: World, job: Job) -> set[str]:
    """Where the supervisor and all below it listen now: `loopback`, or the address that is not."""
    supervisor = world.supervisor(job)
    processes = [supervisor, *supervisor.children(recursive=True)]
    assert len(processes) > 2
    sockets = {link for process in processes for link in descriptors(process.pid)}
    return {
        "loopback" if address in LOOPBACK else address
        for table in TABLES
        for address, inode in bound(table)
        if f"socket:[{inode}]" in sockets
    }


def descriptors(pid: int) -> set[str]:
    links = set()
    with contextlib.suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                links.add(str(entry.readlink()))
    return links


def bound(table: str) -> Iterator[tuple[str, str]]:
    """Address and inode of each socket that anybody could send to."""
    for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
        words = line.split()
        address, state, inode = words[1].partition(":")[0], words[3], words[9]
        if state == LISTENS or (table.startswith("udp") and state == UNCONNECTED):
            yield address, inode
