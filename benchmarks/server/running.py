"""A server in a process of its own, with a job."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from batchai_magics.backends.base.backend_registry import open_backend
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.cell import parse
from batchai_magics.config import Settings
from batchai_magics.jobs.submit import submit
from batchai_magics.models.resource_ids import ResourceId


@dataclass
class Server:
    """A server that runs, and the one job that there is."""

    port: int
    process: psutil.Process
    token: str
    home: Path
    job: ResourceId

    def connection(self) -> http.client.HTTPConnection:
        """A connection that is kept."""
        return http.client.HTTPConnection("127.0.0.1", self.port)

    def ask(self, connection: http.client.HTTPConnection, method: str, path: str) -> bytes:
        """One answer."""
        connection.request(method, path, headers={"Authorization": f"Bearer {self.token}"})
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status < 300, body
        return body


@contextlib.contextmanager
def running(home: Path) -> Iterator[Server]:
    """A server in front of a home with one job that has ended."""
    settings = Settings(sections={"local": LocalSettings(home=home)})
    backend = open_backend(settings)
    job = submit(backend, parse("first", "print('x' * 100_000)", settings=settings), settings).job.wait()
    backend.close()
    words = [sys.executable, "-m", "batchai_magics.cli", "serve", "--port", "0"]
    env = {**os.environ, "BATCHAI_HOME": str(home)}
    process = subprocess.Popen(words, env=env, stdout=subprocess.PIPE, text=True)
    try:
        port = int(re.search(r":(\d+)\.", process.stdout.readline())[1])
        token = (home / "server" / "token").read_text().strip()
        yield Server(port, psutil.Process(process.pid), token, home, job.id)
    finally:
        process.terminate()
        process.wait()
