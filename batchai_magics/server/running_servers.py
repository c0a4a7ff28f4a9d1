"""The registry of running servers of a home: one file each, with its address.

A server holds a lock on its file; the operating system releases it however the process ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from batchai_magics.backends.service.private_files import make_folder, opener
from batchai_magics.errors import UsageError


@dataclass(frozen=True)
class RunningServer:
    """The URL of a server, and the CA certificate that clients must trust, if it is our own."""

    url: str
    authority: Path | None = None


@contextlib.contextmanager
def registered(folder: Path, server: RunningServer) -> Iterator[None]:
    """Registers this process as a server inside the block."""
    make_folder(folder)
    file = folder / f"{os.getpid()}.json"
    part = file.with_suffix(".part")
    part.unlink(missing_ok=True)  # of an earlier process with this pid
    authority = str(server.authority) if server.authority else None
    with open(part, "x", encoding="utf-8", opener=opener) as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        stream.write(json.dumps({"url": server.url, "authority": authority}))
        stream.flush()
        part.replace(file)  # locked already
        try:
            yield
        finally:
            file.unlink(missing_ok=True)


def running_servers(folder: Path) -> list[RunningServer]:
    """The running servers; deletes files of killed ones."""
    found = []
    for file in sorted(folder.glob("*.json")):
        with contextlib.suppress(OSError, ValueError, KeyError):  # it just ended, or is being written
            if _is_locked(file):
                note = json.loads(file.read_text(encoding="utf-8"))
                found.append(
                    RunningServer(note["url"], Path(note["authority"]) if note["authority"] else None)
                )
            else:
                file.unlink(missing_ok=True)
    return found


def _is_locked(file: Path) -> bool:
    with file.open("rb") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def choose_server(folder: Path, url: str | None) -> RunningServer:
    """The server of a URL, or the only one running; UsageError for none or several."""
    servers = running_servers(folder)
    if url:
        named = RunningServer(url.rstrip("/"))
        return next((server for server in servers if server.url == named.url), named)
    if len(servers) != 1:
        what = "several servers run here" if servers else "no server runs here"
        hint = (
            f"Name one: --url {servers[0].url}" if servers else "Start it (batchai serve), or give its --url."
        )
        raise UsageError(what, hint=hint)
    return servers[0]
