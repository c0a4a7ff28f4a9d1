"""`batchai serve` as a process of its own."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import requests

from tests.patience import PATIENCE_S
from tests.server.running import VERSION

COMMAND = (sys.executable, "-m", "batchai_magics.cli", "serve", "--port")


@dataclass
class Process:
    """A server that runs by itself."""

    url: str
    process: subprocess.Popen
    home: Path
    said: list[str]

    @property
    def token(self) -> str:
        return (self.home / "server" / "token").read_text().strip()

    def ask(self, method: str, path: str, **more: object) -> requests.Response:
        headers = {"Authorization": f"Bearer {self.token}", **more.pop("headers", {})}
        params = {"api-version": VERSION}
        return requests.request(method, self.url + path, headers=headers, params=params, **more)


@contextlib.contextmanager
def started(
    home: Path, *words: str, port: int = 0, command: Sequence[str] = COMMAND, **settings: str
) -> Iterator[Process]:
    """A server that runs as long as the context; on a port that is free, unless one is said.

    `settings` are variables of its environment; `command` starts it, up to the value of `--port`.
    """
    env = {**os.environ, "BATCHAI_HOME": str(home), **settings}
    process = subprocess.Popen([*command, str(port), *words], env=env, stdout=subprocess.PIPE, text=True)
    said = [process.stdout.readline()]
    url = re.search(r"https?://[\w.:]+\d", said[0])[0]
    try:
        yield Process(url, process, home, said)
    finally:
        process.terminate()
        process.wait(PATIENCE_S)
        process.stdout.close()
