"""A machine that is reached with the user's own `ssh`."""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import io
import os
import stat
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, BinaryIO, ClassVar, cast
from urllib.parse import quote

from batchai_magics.backends.base import CommandBytes
from batchai_magics.backends.machines.machine import CommandLine, CompletedCommand, Machine
from batchai_magics.backends.machines.ssh_channel import SshChannel
from batchai_magics.backends.machines.ssh_connection import Response
from batchai_magics.backends.machines.stat_cache import DirectoryEntry, FileStatus, StatCache
from batchai_magics.untrusted_files import NotRegularError

RESPONSE_SLACK_S = 15.0  # added to the timeout of a command while waiting for its result
READ_AHEAD_BYTES = 1 << 20
_MISSING = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)  # errors of paths that do not exist


class SshMachine(Machine):
    """The host of a channel. All methods may raise UnreachableError."""

    def __init__(self, channel: SshChannel) -> None:
        self._channel = channel

    @property
    def name(self) -> str:
        """The host, as passed to `ssh`."""
        return self._channel.host

    @property
    def user(self) -> int:
        """The uid of the user on the host."""
        return int(self._hello["user"])

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment of a login shell on the host."""
        environ: dict[str, str] = self._hello["environ"]
        return environ

    @property
    def python(self) -> str:
        """The interpreter that runs the agent."""
        return str(self._hello["python"])

    @property
    def path_prefix(self) -> str:
        """Empty: the interpreter is on PATH."""
        return ""

    @cached_property
    def _hello(self) -> Mapping[str, Any]:
        hello: Mapping[str, Any] = self._channel.request("hello").head["value"]
        return hello

    @cached_property
    def _paths(self) -> type[Any]:
        return path_class(self._channel, StatCache(self._channel), self.user)

    def resolve(self, path: PurePath) -> Path:
        """An absolute path on the host; `~` and relative paths are below the user's home directory."""
        text = path.as_posix()
        below = text.removeprefix("~").lstrip("/") if text.startswith(("~/", "~")) else text
        return cast("Path", self._paths(str(self._hello["home"]), below))

    def has_program(self, program: str) -> bool:
        """Whether a program is on PATH."""
        return bool(self._channel.request("has", program=program).head["value"])

    def run(
        self, line: CommandLine, *, timeout_s: float, result_folder: Path | None = None
    ) -> CompletedCommand:
        """Runs a command and waits for it."""
        arguments = {
            **self._run_arguments(line),
            "timeout_s": timeout_s,
            "answer": str(result_folder) if result_folder else None,
        }
        request = self._channel.request_once if result_folder else self._channel.request
        response = request("run", wait_s=timeout_s + RESPONSE_SLACK_S, **arguments)
        if result_folder:
            cast("SshPath", result_folder).rmtree(ignore_errors=True)
        code, size = response.head["value"]
        return CompletedCommand(code, response.data[:size], response.data[size:])

    def stream(self, line: CommandLine, *, tick_s: float) -> Generator[CommandBytes, None, int]:
        """Runs a command; yields its output as it arrives, and returns its exit code."""
        responses = self._channel.stream("start", tick_s=tick_s, **self._run_arguments(line))
        with contextlib.closing(responses):
            while True:
                try:
                    response = next(responses)
                except StopIteration as end:
                    return int(end.value)
                yield CommandBytes(response.data, response.head["error"]) if response else CommandBytes(b"")

    def close(self) -> None:
        """Closes the connection; the next request opens another."""
        self._channel.close()

    def _run_arguments(self, line: CommandLine) -> dict[str, Any]:
        return {"words": list(line.arguments), "env": dict(line.env), "folder": line.folder}


class RemoteFile(io.RawIOBase):
    """A regular file of a host, with read-ahead."""

    def __init__(self, path: SshPath) -> None:
        super().__init__()
        self._path, self._position = path, 0
        self._start = 0
        status, _, self._buffer = path.read_slice(0, READ_AHEAD_BYTES)
        self._size = status.st_size

    def readable(self) -> bool:
        """Always true."""
        return True

    def seekable(self) -> bool:
        """Always true."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Sets the position of the next read."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def tell(self) -> int:
        """The position of the next read."""
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Reads the next bytes."""
        view = memoryview(buffer).cast("B")
        data = self._buffered(len(view))
        view[: len(data)] = data
        self._position += len(data)
        return len(data)

    def _buffered(self, count: int) -> bytes:
        index = self._position - self._start
        if not 0 <= index < len(self._buffer):
            is_end = self._position >= self._size and self._position >= self._start + len(self._buffer)
            if is_end and len(self._buffer) < READ_AHEAD_BYTES:
                return b""
            self._start, index = self._position, 0
            _, _, self._buffer = self._path.read_slice(self._position, READ_AHEAD_BYTES)
        return self._buffer[index : index + count]


class SshPath(PurePosixPath):
    """A path of the host of `channel`: it has the methods of `Path`, but is not `os.PathLike`.

    Methods raise the OSError of the host, or UnreachableError.
    """

    channel: ClassVar[SshChannel]
    cache: ClassVar[StatCache]
    user: ClassVar[int]

    def __fspath__(self) -> str:
        raise TypeError(f"{self} is on another machine")

    # -- metadata

    def stat(self, *, follow_symlinks: bool = True) -> FileStatus:
        """The metadata of the file, or with `follow_symlinks` false of a symbolic link itself."""
        if cached := self.cache.lookup(str(self), follow=follow_symlinks):
            return cached.status
        return FileStatus(*self._request("status", follow=follow_symlinks).head["value"])

    def lstat(self) -> FileStatus:
        """The metadata of the file, or of a symbolic link itself."""
        return self.stat(follow_symlinks=False)

    def exists(self) -> bool:
        """Whether it exists."""
        return bool(self._mode())

    def is_dir(self) -> bool:
        """Whether it is a folder, or a link to one."""
        return stat.S_ISDIR(self._mode())

    def is_file(self) -> bool:
        """Whether it is a regular file, or a link to one."""
        return stat.S_ISREG(self._mode())

    def is_symlink(self) -> bool:
        """Whether it is a symbolic link."""
        return stat.S_ISLNK(self._mode(follow=False))

    def iterdir(self) -> Iterator[Path]:
        """The paths in this folder."""
        return (self._path(name) for name in self._request("names").head["value"])

    def glob(self, pattern: str) -> Iterator[Path]:
        """The paths below that match a pattern."""
        names = None if "/" in pattern or "**" in pattern else self.cache.names(str(self))
        if names is not None:
            return (self._path(name) for name in names if fnmatch.fnmatchcase(name, pattern))
        return (self._path(path) for path in self._request("glob", pattern=pattern).head["value"])

    def resolve(self) -> Path:
        """The path with symbolic links resolved, as far as it exists."""
        return self._path(self.cache.real(str(self)) or self._request("real").head["value"])

    def absolute(self) -> SshPath:
        """The path itself, which is always absolute."""
        return self

    def scan(self, root: SshPath, limit: int | None = None) -> Sequence[DirectoryEntry]:
        """The entries of this folder sorted by name, at most `limit` of them."""
        if (cached := self.cache.entries(str(self))) is not None:
            return cached[:limit]
        entries = self.channel.request("entries", root=str(root), folder=str(self), limit=limit).head["value"]
        return [DirectoryEntry(*entry) for entry in entries]

    def entry(self, root: SshPath) -> DirectoryEntry:
        """The entry of this path itself; raises FileNotFoundError if it does not exist."""
        entries = self.channel.request("entries", root=str(root), paths=[str(self)]).head["value"]
        if not entries:
            raise FileNotFoundError(str(self))
        return DirectoryEntry(*entries[0])

    def is_writable(self) -> bool:
        """Whether the user may write here."""
        return bool(self._request("access").head["value"])

    def expected_owner(self) -> int:
        """The uid of the user on the host."""
        return self.user

    def as_uri(self) -> str:
        """An sftp URL, which file managers open."""
        return f"sftp://{self.channel.host}{quote(os.fsencode(str(self)))}"

    # -- reading

    def read_bytes(self) -> bytes:
        """The content of the file."""
        with self._opened() as file:
            return file.read()

    def read_text(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """The content of the file as text."""
        return self.read_bytes().decode(encoding, errors)

    def open_regular(self) -> BinaryIO:
        """Opens a regular file to read its bytes."""
        try:
            return self._opened()
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise NotRegularError(str(self), self._mode(follow=False)) from None
            raise

    def _opened(self) -> BinaryIO:
        cached = self.cache.lookup(str(self), follow=True)
        if cached and cached.data is not None:
            return io.BytesIO(cached.data)
        return cast("BinaryIO", RemoteFile(self))

    def read_ahead(
        self, folders: Collection[Path], files: Collection[Path], listed: Collection[Path]
    ) -> AbstractContextManager[None]:
        """A context in which this thread reads these paths from a cache."""
        return self.cache.read_ahead([*map(str, folders)], [*map(str, files)], [*map(str, listed)])

    def read_slice(self, offset: int, limit: int, *, head: int = 0) -> tuple[FileStatus, bytes, bytes]:
        """The status, the first `head` bytes and a range of a regular file, from one open file descriptor."""
        response = self._request("read", offset=offset, limit=limit, head=head)
        metadata, head_bytes = response.head["value"]
        return FileStatus(*metadata), response.data[:head_bytes], response.data[head_bytes:]

    def digest(self, *, sync: bool = False) -> str:
        """The SHA-256 (hex) of the file."""
        sha256: str = self._request("digest", sync=sync).head["value"][0]
        return sha256

    # -- writing

    def write_atomic(self, data: bytes, mode: int, *, sync: bool = False, parents: bool = True) -> None:
        """Writes the file atomically; with `parents` creates missing folders."""
        self._send("put", data, mode=mode, sync=sync, parents=parents)

    def write_exclusive(self, data: bytes, mode: int, *, needs: SshPath | None = None) -> bool:
        """Writes a new file atomically, with its folder; returns False if it exists."""
        response = self._change("put_new", data, mode=mode, needs=str(needs) if needs else None)
        return bool(response.head["value"])

    def write_at(self, data: bytes, offset: int, *, cut: bool = False, mode: int | None = None) -> None:
        """Writes at an offset; truncates the file behind it with `cut`, creates it with a `mode`."""
        self._change("splice", data, offset=offset, cut=cut, mode=mode)

    def make_folder(self, mode: int) -> None:
        """Creates the folder and its parents unless they exist."""
        self._send("mkdir", mode=mode, parents=True, exist_ok=True)

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        """Creates the folder."""
        self._change("mkdir", mode=mode, parents=parents, exist_ok=exist_ok)

    def touch(self, mode: int = 0o666, exist_ok: bool = True) -> None:
        """Creates an empty file unless it exists."""
        (self._send if exist_ok else self._change)("touch", mode=mode, exist_ok=exist_ok)

    def chmod(self, mode: int) -> None:
        """Changes the permissions."""
        self._change("chmod", mode=mode)

    def unlink(self, missing_ok: bool = False) -> None:
        """Deletes the file or link."""
        (self._send if missing_ok else self._change)("unlink", missing_ok=missing_ok)

    def rmtree(self, *, ignore_errors: bool = False) -> None:
        """Deletes the folder recursively."""
        (self._send if ignore_errors else self._change)("rmtree", ignore_errors=ignore_errors)

    def replace(self, target: SshPath) -> SshPath:
        """Renames it, replacing the target."""
        self.cache.invalidate(str(target))
        self._change("move", target=str(target))
        return target

    rename = replace

    def hardlink_to(self, target: SshPath) -> None:
        """Creates it as a hard link to the target."""
        self._change("link", target=str(target))

    def symlink_to(self, target: object, target_is_directory: bool = False) -> None:
        """Creates it as a symbolic link to the target."""
        self._change("symlink", target=str(target))

    def make_link(self, target: SshPath) -> None:
        """Creates a symbolic link here, and its folder, unless there is a link already."""
        self._send("symlink", target=str(target), exist_ok=True)

    def pipelined(self) -> AbstractContextManager[None]:
        """A context in which changes without a result may be sent together."""
        return self.channel.pipelined()

    # -- requests

    def _mode(self, *, follow: bool = True) -> int:
        try:
            return self.stat(follow_symlinks=follow).st_mode
        except OSError as error:
            if error.errno not in _MISSING:
                raise
            return 0

    def _path(self, name: str) -> Path:
        return cast("Path", self / name)

    def _request(self, operation: str, **arguments: Any) -> Response:
        return self.channel.request(operation, path=str(self), **arguments)

    def _change(self, operation: str, data: bytes = b"", **arguments: Any) -> Response:
        self.cache.invalidate(str(self))
        return self.channel.request(operation, data, path=str(self), **arguments)

    def _send(self, operation: str, data: bytes = b"", **arguments: Any) -> None:
        self.cache.invalidate(str(self))
        self.channel.send(operation, data, path=str(self), **arguments)


def path_class(channel: SshChannel, cache: StatCache, user: int) -> type[SshPath]:
    """A subclass of SshPath that is bound to one host: paths derived from its instances are too."""
    return type("BoundSshPath", (SshPath,), {"channel": channel, "cache": cache, "user": user})
