"""A server that is killed while a job runs, and started again: no byte is lost, and people are told."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from batchai_magics import cell
from batchai_magics.backends.arm.arm_backend import ArmBackend
from batchai_magics.backends.arm.connection import Endpoint
from batchai_magics.backends.arm.settings import ArmSettings
from batchai_magics.backends.base import Copy, FileRef, Seal
from batchai_magics.commands.handlers.job_wait import watch_job
from batchai_magics.commands.output.command_progress import Message
from batchai_magics.config import Settings
from batchai_magics.errors import NotFoundError
from batchai_magics.follow import ConnectionLost, ConnectionRestored, LogBytes
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.submit import submit
from tests.patience import PATIENCE_S
from tests.ports import free_port
from tests.server.process import Process, started
from tests.world import processes_of, until

pytestmark = pytest.mark.slow
PIECE = 4 << 20
COUNTS = """
import pathlib, time
number = 0
while not pathlib.Path("{go}").exists():
    print(number, flush=True)
    number += 1
    time.sleep(0.01)
"""


@dataclass
class Site:
    """A server that comes and goes at one address, and our own client of it."""

    home: Path
    server: Process
    left: contextlib.ExitStack

    @property
    def settings(self) -> Settings:
        own = ArmSettings(endpoint=self.server.url, token=self.server.token)
        return Settings(backend="arm", sections={"arm": own})

    def client(self) -> ArmBackend:
        backend = ArmBackend(Endpoint.of(self.settings.for_backend(ArmSettings)), self.settings)
        self.left.callback(backend.close)
        return backend

    def submit(self, line: str, script: str) -> Job:
        request = cell.parse(line, script, settings=self.settings)
        return submit(self.client(), request, self.settings).job

    def kill(self) -> None:
        """Nothing of the server's own is asked whether it likes that."""
        os.kill(self.server.process.pid, signal.SIGKILL)
        self.server.process.wait(PATIENCE_S)

    def start(self) -> None:
        port = int(self.server.url.rpartition(":")[2])
        self.server = self.left.enter_context(started(self.home, port=port))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    home = tmp_path / "home"
    with contextlib.ExitStack() as left:
        yield Site(home, left.enter_context(started(home, port=free_port())), left)
    until(lambda: not processes_of(home))


class Watching(threading.Thread):
    """Somebody who follows a job from another thread."""

    def __init__(self, job: Job) -> None:
        super().__init__(daemon=True)
        self.job, self.seen = job, []
        self.start()

    def run(self) -> None:
        for event in self.job.events():
            self.seen.append(event)

    def has(self, kind: type) -> bool:
        return any(isinstance(event, kind) for event in list(self.seen))

    @property
    def log(self) -> bytes:
        pieces = [event for event in list(self.seen) if isinstance(event, LogBytes)]
        return b"".join(piece.chunk.data for piece in pieces if piece.file.path == "stdout.txt")


def test_followers_and_waiters_read_every_byte_and_are_told_when_the_server_dies(
    site: Site, tmp_path: Path
) -> None:
    go, said = tmp_path / "go", list[str]()
    job = site.submit("counts", COUNTS.format(go=go))

    def wait() -> None:
        for part in watch_job(site.client(), job.id):
            said.extend([part.text] if isinstance(part, Message) else [])

    watching, waiting = Watching(job), threading.Thread(target=wait, daemon=True)
    waiting.start()
    until(lambda: b"\n20\n" in watching.log and any("started execution" in line for line in said))
    site.kill()
    until(lambda: watching.has(ConnectionLost) and any("cannot be reached" in line for line in said))
    site.start()
    until(lambda: watching.has(ConnectionRestored) and "Connected again." in said)
    go.touch()
    for thread in (watching, waiting):
        thread.join(PATIENCE_S)
    assert said[-1].startswith("Job completed")
    lines = watching.log.decode().split()
    assert lines == [str(number) for number in range(len(lines))]
    assert [type(event) for event in watching.seen].count(ConnectionLost) == 1
    seal: Seal = job.backend.read(FileRef(job.id, "stdout.txt")).seal
    assert seal.size_bytes == len(watching.log)


def test_an_upload_goes_on_where_the_killed_server_had_it(site: Site, tmp_path: Path) -> None:
    data, here = os.urandom(2 * PIECE + 5), tmp_path / "model.bin"
    storage = site.client().storage
    storage.make("data")
    storage.begin("data", here.name, len(data))
    storage.write("data", here.name, 0, data[:PIECE])
    site.kill()
    site.start()
    with pytest.raises(NotFoundError):
        storage.show("data", here.name)
    assert storage.begin("data", here.name, len(data)) == PIECE
    here.write_bytes(data)
    assert sum(storage.send("data", [Copy(here, here.name, len(data))])) == len(data)
    assert storage.digest("data", here.name) == hashlib.sha256(data).hexdigest()
    assert [file.path for file in storage.list("data")] == [here.name]
