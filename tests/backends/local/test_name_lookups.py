"""A job asks no name server for anything: names of nodes are nobody else's to know, nor to answer."""

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
from tests.backends.local.containers import DOCKER
from tests.backends.local.namespace import scene, tell
from tests.world import World

pytestmark = pytest.mark.slow
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
    docker = folder / "docker"
    docker.write_text(DOCKER.format(python=sys.executable))
    docker.chmod(0o755)
    with name_server(folder) as asked:
        world = World(folder / "home", limits=LocalSettings(container_command=str(docker)))
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
