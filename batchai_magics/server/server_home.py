"""The server's files, in a private folder below the backend's home; the registry of running servers."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from batchai_magics.backends.folders.private_files import FOLDER, make_folder, make_home, opener, write
from batchai_magics.config import Settings, default_home
from batchai_magics.errors import StorageError, UsageError

AUTHORITY_FILE = "ca.pem"  # the certificate of the CA of `--tls self`
_WRITABLE_BY_OTHERS = 0o022


@dataclass(frozen=True)
class TlsFiles:
    """The files for TLS; all None without it. `authority` is the CA of `--tls self`."""

    certificate: Path | None = None
    key: Path | None = None
    authority: Path | None = None


class ServerHome:
    """The files of a server, by their names in its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.token = folder / "token"  # of the administrator
        self.users = folder / "users.json"  # besides the administrator
        self.owners = folder / "owners.jsonl"  # the journal of resource owners
        self.keys = folder / "keys.json"  # of the server's own storage account
        self.metadata = folder / "metadata.jsonl"  # of shares, folders and files
        self.uploads = folder / "uploads"  # notes on part files of unfinished uploads
        self.operations = folder / "operations"  # that take long
        self.access_log = folder / "access.log"
        self.running = folder / "running"  # the registry of running servers
        self.connection_string = folder / "connection-string"  # to Azure Storage, with `--files-only`
        self.certificates = folder / "tls"  # the CA and certificate of `--tls self`
        self.authority = self.certificates / AUTHORITY_FILE

    @classmethod
    def of(cls, settings: Settings) -> ServerHome:
        """The folder `server` in the home of a backend, or in the user's data directory."""
        homes = (getattr(section, "home", None) for section in settings.sections.values())
        home = next((home for home in homes if home), None) or default_home()
        return cls(Path(home).expanduser().absolute() / "server")

    def make(self) -> None:
        """Creates the folder, private to its owner."""
        make_folder(self.folder)

    def secure(self) -> None:
        """Creates the folder and its home, or makes sure that nobody else can read or write them.

        Raises StorageError for files of another user, and for a home that cannot be made private.
        """
        make_home(self.folder.parent)
        self.make()
        self.folder.chmod(FOLDER)
        for file in (self.folder, *self.folder.iterdir(), *self.certificates.glob("*")):
            status = file.lstat()  # another user could have planted it
            if stat.S_ISLNK(status.st_mode) or status.st_uid != os.geteuid():
                whose = "is a link" if stat.S_ISLNK(status.st_mode) else f"belongs to uid {status.st_uid}"
                hint = "Check who created it, and delete it; a new one is created then."
                raise StorageError(f"{file} {whose}", code="HomeNotOwned", hint=hint)
            if status.st_mode & _WRITABLE_BY_OTHERS:
                text, hint = f"{file} can be written by others", f"chmod go-rwx {file}"
                raise StorageError(text, code="HomeNotPrivate", hint=hint)


def read_token(file: Path) -> str:
    """The token in a file, which is created if missing.

    Files of root are accepted: system secrets often belong to it. Raises UsageError for a file that others
    can read or own, or a short token.
    """
    if not file.exists():
        write(file, secrets.token_urlsafe(32) + "\n")
    status = file.stat()
    if status.st_mode & 0o077:
        hint = f"chmod 600 {file}"
        raise UsageError(f"the token in {file} can be read by others", hint=hint)
    if status.st_uid not in (os.geteuid(), 0):
        hint = "Its owner knows the token: use a file of your own."
        raise UsageError(f"the token in {file} belongs to uid {status.st_uid}", hint=hint)
    token = file.read_text(encoding="utf-8").strip()
    if len(token) < 16:
        raise UsageError(f"the token in {file} is too short", hint="Delete the file: a new one is made.")
    return token


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
    servers = []
    for file in sorted(folder.glob("*.json")):
        with contextlib.suppress(OSError, ValueError, KeyError):  # it just ended, or is being written
            if _is_locked(file):
                data = json.loads(file.read_text(encoding="utf-8"))
                authority = Path(data["authority"]) if data["authority"] else None
                servers.append(RunningServer(data["url"], authority))
            else:
                file.unlink(missing_ok=True)
    return servers


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
        unregistered = RunningServer(url.rstrip("/"))
        return next((server for server in servers if server.url == unregistered.url), unregistered)
    if len(servers) != 1:
        problem = "several servers run here" if servers else "no server runs here"
        hint = (
            f"Name one: --url {servers[0].url}" if servers else "Start it (batchai serve), or give its --url."
        )
        raise UsageError(problem, hint=hint)
    return servers[0]
