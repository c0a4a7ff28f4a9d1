"""Nobody in, nobody asked: what a job starts listens on loopback or not at all, and asks no name server."""

from __future__ import annotations

import contextlib
import fcntl
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.jobs.job_handle import Job
from batchai_magics.models.states import ExecutionState
from tests.backends.local.namespace import scene, tell
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
# A docker, which is not to be had everywhere: it passes on what docker passes on, and no descriptor.
DOCKER = """#!{python}
import os, sys
if sys.argv[1] == "run":
    passed = [word[6:] for word in sys.argv if word.startswith("--env=")]
    env = {{name: os.environ[name] for name in passed if name in os.environ}}
    command = sys.argv[sys.argv.index("/bin/bash"):]
    os.closerange(3, 1024)
    os.execve(command[0], command, {{**env, "PATH": os.environ["PATH"]}})
"""
PREPARATION = "touch $STAGES/prepared-0; until test -e $STAGES/prepared-seen; do sleep 0.01; done"


def docker_in(folder: Path) -> str:
    """A docker whose containers inherit no descriptor."""
    program = folder / "docker"
    program.write_text(DOCKER.format(python=sys.executable))
    program.chmod(0o755)
    return str(program)


@pytest.fixture
def docker_world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "home", limits=LocalSettings(container_command=docker_in(tmp_path)))
    yield made
    made.close()


def test_mpi_job_has_no_listening_socket(world: World, tmp_path: Path) -> None:
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


# -- name servers


ALONE = ("unshare", "-Urmnu")  # with mounts, a loopback and a host name of its own
SET_FLAGS, UP = 0x8914, 0x41  # SIOCSIFFLAGS; IFF_UP and IFF_RUNNING
NO_SUCH_NAME = b"\x81\x83"
ASK = """
import socket
try:
    socket.getaddrinfo("asked.example", 80, socket.AF_INET)
except OSError as error:
    print(type(error).__name__)
"""
CODE = "from mpi4py import MPI\nprint(MPI.COMM_WORLD.allreduce(1), flush=True)\n"


def test_an_mpi_job_asks_no_name_server(tmp_path: Path) -> None:
    assert scene(jobs_one_of_which_asks, tmp_path, who=ALONE) == [
        ["ours", ["4"] * 4, []],
        ["in containers", ["4"] * 4, []],
        ["asking", ["gaierror"], ["asked.example"]],
    ]


def jobs_one_of_which_asks(folder: Path) -> None:
    """Tells what each job printed, and what the name server was asked for until then."""
    with name_server(folder) as asked:
        world = World(folder / "home", limits=LocalSettings(container_command=docker_in(folder)))
        for how, option in {"ours": "", "in containers": " --image ours:1"}.items():
            job = world.run(f"j-{how[:2]} --nodes 2 --processes 4{option}", CODE)
            tell(how, job.log().split(), asked)
        tell("asking", world.run("asking", ASK).log().split(), asked)
        world.close()


@contextlib.contextmanager
def name_server(folder: Path) -> Iterator[list[str]]:
    """The only one of this namespace, and what it is asked; it knows no name, nor has this host's a file.

    Whoever asks has the longest patience that there is: none asks twice.
    """
    socket.sethostname("nobody-knows")
    with socket.socket() as loopback, socket.socket(type=socket.SOCK_DGRAM) as server:
        fcntl.ioctl(loopback, SET_FLAGS, struct.pack("16sH22x", b"lo", UP))
        server.bind(("127.0.0.1", 53))
        settings = {
            "resolv.conf": "nameserver 127.0.0.1\noptions timeout:30\n",
            "nsswitch.conf": "hosts: files dns\n",
        }
        for name, text in settings.items():
            folder.joinpath(name).write_text(text)
            if Path("/etc", name).exists():  # without them the C library does the same
                subprocess.run(["mount", "--bind", folder / name, Path("/etc", name)], check=True)
        asked: list[str] = []
        threading.Thread(target=serve, args=(server, asked), daemon=True).start()
        yield asked


def serve(server: socket.socket, asked: list[str]) -> None:
    with contextlib.suppress(OSError):  # closed
        while True:
            query, client = server.recvfrom(512)
            asked.append(name_in(query))
            server.sendto(query[:2] + NO_SUCH_NAME + query[4:], client)


def name_in(query: bytes) -> str:
    """The name that a query asks for: labels, each behind its length."""
    labels, place = [], 12
    while length := query[place]:
        labels.append(query[place + 1 : place + 1 + length].decode())
        place += 1 + length
    return ".".join(labels)
