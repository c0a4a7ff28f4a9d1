"""Paths of an ssh host, with the interface of `pathlib.Path`."""

from __future__ import annotations

import errno
import fnmatch
import io
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any, ClassVar, cast
from urllib.parse import quote

from batchai_magics.backends.machines.ssh_channel import SshChannel
from batchai_magics.backends.machines.ssh_connection import Response
from batchai_magics.backends.machines.stat_cache import StatCache
from batchai_magics.backends.service.remote_path import DirectoryEntry, FileStatus, RemotePath

READ_AHEAD_BYTES = 1 << 20


class RemoteFile(io.RawIOBase):
    """A file that `read` gives pieces of, by offset and limit, with the file's status."""

    def __init__(self, read: Callable[[int, int], tuple[FileStatus, bytes]]) -> None:
        super().__init__()
        self._read, self._at = read, 0
        self._start = 0
        status, self._kept = read(0, READ_AHEAD_BYTES)
        self._size = status.st_size

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Where to read from."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def tell(self) -> int:
        """Where the next byte is read from."""
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Reads the next bytes."""
        view = memoryview(buffer).cast("B")
        data = self._near(len(view))
        view[: len(data)] = data
        self._at += len(data)
        return len(data)

    def _near(self, count: int) -> bytes:
        inside = self._at - self._start
        if not 0 <= inside < len(self._kept):
            is_end = self._at >= self._size and self._at >= self._start + len(self._kept)
            if is_end and len(self._kept) < READ_AHEAD_BYTES:
                return b""
            self._start, inside = self._at, 0
            _, self._kept = self._read(self._at, READ_AHEAD_BYTES)
        return self._kept[inside : inside + count]


_NOTHING = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)  # where a path leads to nothing


class SshPath(RemotePath):
    """A path of the host that `channel` leads to. Its error is OSError as here, or UnreachableError."""

    channel: ClassVar[SshChannel]
    cache: ClassVar[StatCache]
    user: ClassVar[int]

    # -- looking

    def status(self, *, follow: bool) -> FileStatus:
        """What it leads to, or what it is itself."""
        known = self.cache.lookup(str(self), follow=follow)
        return known.status if known else FileStatus(*self._ask("status", follow=follow).head["value"])

    def stat(self, *, follow_symlinks: bool = True) -> FileStatus:
        """What it leads to, or what it is itself."""
        return self.status(follow=follow_symlinks)

    def lstat(self) -> FileStatus:
        """What it is itself."""
        return self.status(follow=False)

    def exists(self) -> bool:
        """Whether it leads to something."""
        return bool(self._mode())

    def is_dir(self) -> bool:
        """Whether it leads to a folder."""
        return stat.S_ISDIR(self._mode())

    def is_file(self) -> bool:
        """Whether it leads to a regular file."""
        return stat.S_ISREG(self._mode())

    def is_symlink(self) -> bool:
        """Whether it is a link."""
        return stat.S_ISLNK(self._mode(follow=False))

    def iterdir(self) -> Iterator[Path]:
        """What lies in this folder."""
        return (self._path(name) for name in self._ask("names").head["value"])

    def glob(self, pattern: str) -> Iterator[Path]:
        """What lies below and has such a name."""
        names = None if "/" in pattern or "**" in pattern else self.cache.names(str(self))
        if names is not None:
            return (self._path(name) for name in names if fnmatch.fnmatchcase(name, pattern))
        return (self._path(found) for found in self._ask("glob", pattern=pattern).head["value"])

    def resolve(self) -> Path:
        """The path without links, as far as there is one."""
        return self._path(self.cache.real(str(self)) or self._ask("real").head["value"])

    def absolute(self) -> SshPath:
        """The path itself: all are absolute."""
        return self

    def entries_below(self, root: RemotePath, limit: int | None = None) -> Sequence[DirectoryEntry]:
        """What lies in this folder, sorted by name, or the first of it."""
        if (known := self.cache.entries(str(self))) is not None:
            return known[:limit]
        found = self.channel.request("entries", root=str(root), folder=str(self), limit=limit).head["value"]
        return [DirectoryEntry(*entry) for entry in found]

    def entry(self, root: RemotePath) -> DirectoryEntry:
        """What lies here; FileNotFoundError when there is nothing."""
        found = self.channel.request("entries", root=str(root), paths=[str(self)]).head["value"]
        if not found:
            raise FileNotFoundError(str(self))
        return DirectoryEntry(*found[0])

    def is_writable(self) -> bool:
        """Whether something can be written here."""
        return bool(self._ask("access").head["value"])

    def expected_owner(self) -> int:
        """The number of the user who asks."""
        return self.user

    def as_uri(self) -> str:
        """An address that file managers know; it says where the file is, and opens nothing by itself."""
        return f"sftp://{self.channel.host}{quote(os.fsencode(str(self)))}"

    # -- reading

    def open(self, mode: str = "r", buffering: int = -1) -> IO[bytes]:
        """The file, to read its bytes."""
        if mode != "rb":
            raise ValueError(f"{self} is elsewhere: it can be opened to read its bytes alone")
        known = self.cache.lookup(str(self), follow=True)
        if known and known.data is not None:
            return io.BytesIO(known.data)
        file = RemoteFile(self.read_from)
        return cast("IO[bytes]", file if buffering == 0 else io.BufferedReader(file))

    def read_bytes(self) -> bytes:
        """All of the file."""
        known = self.cache.lookup(str(self), follow=True)
        if known and known.data is not None:
            return known.data
        with RemoteFile(self.read_from) as file:
            return file.readall()

    def read_text(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """All of the file as text."""
        return self.read_bytes().decode(encoding, errors)

    def read_from(self, offset: int, limit: int) -> tuple[FileStatus, bytes]:
        """What it leads to, and a piece of it."""
        found, _, data = self._read(offset, limit)
        return found, data

    def read_piece(self, offset: int, limit: int, *, head: int = 0) -> tuple[FileStatus, bytes, bytes]:
        """Of a regular file, all of one moment: its status, its first bytes, a piece of it."""
        return self._read(offset, limit, head=head, regular=True)

    def digest(self, *, sync: bool = False) -> str:
        """The SHA-256 (hex) of a file."""
        found: str = self._ask("digest", sync=sync).head["value"][0]
        return found

    # -- changing

    def write_atomic(self, data: bytes, mode: int, *, sync: bool = False, parents: bool = True) -> None:
        """Writes a file, whole or not at all; with `parents` its folder where there is none."""
        self._tell("put", data, mode=mode, sync=sync, parents=parents)

    def write_exclusive(self, data: bytes, mode: int, *, needs: RemotePath | None = None) -> bool:
        """Writes a file that is not there, with its folder, whole or not at all; False when it is there."""
        answer = self._change("put_new", data, mode=mode, needs=str(needs) if needs else None)
        return bool(answer.head["value"])

    def write_at(self, data: bytes, offset: int, *, cut: bool = False, mode: int | None = None) -> None:
        """Writes into a file, which ends there if it is to be cut; with a mode it is made."""
        self._change("splice", data, offset=offset, cut=cut, mode=mode)

    def make_folder(self, mode: int) -> None:
        """Makes a folder and those above it, unless they are there."""
        self._tell("mkdir", mode=mode, parents=True, exist_ok=True)

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        """Makes a folder."""
        self._change("mkdir", mode=mode, parents=parents, exist_ok=exist_ok)

    def touch(self, mode: int = 0o666, exist_ok: bool = True) -> None:
        """Makes an empty file where there is none."""
        (self._tell if exist_ok else self._change)("touch", mode=mode, exist_ok=exist_ok)

    def chmod(self, mode: int) -> None:
        """Changes who may use it."""
        self._change("chmod", mode=mode)

    def unlink(self, missing_ok: bool = False) -> None:
        """Deletes this name."""
        (self._tell if missing_ok else self._change)("unlink", missing_ok=missing_ok)

    def rmtree(self, *, ignore_errors: bool = False) -> None:
        """Deletes a folder with all in it."""
        (self._tell if ignore_errors else self._change)("rmtree", ignore_errors=ignore_errors)

    def replace(self, target: SshPath) -> SshPath:
        """Renames it, in place of what had that name."""
        self.cache.invalidate(str(target))
        self._change("move", target=str(target))
        return target

    rename = replace

    def hardlink_to(self, target: SshPath) -> None:
        """Makes it a second name of a file."""
        self._change("link", target=str(target))

    def symlink_to(self, target: object, target_is_directory: bool = False) -> None:
        """Makes it a link."""
        self._change("symlink", target=str(target))

    def make_link(self, target: RemotePath) -> None:
        """Makes it a link, and the folder that it is in, unless it is one."""
        self._tell("symlink", target=str(target), exist_ok=True)

    def pipelined(self) -> AbstractContextManager[None]:
        """Within it, this thread's changes whose answers nobody needs may be made together."""
        return self.channel.pipelined()

    # -- how it is asked

    def _read(
        self, offset: int, limit: int, *, head: int = 0, regular: bool = False
    ) -> tuple[FileStatus, bytes, bytes]:
        answer = self._ask("read", offset=offset, limit=limit, head=head, regular=regular)
        found, head_bytes = answer.head["value"]
        return FileStatus(*found), answer.data[:head_bytes], answer.data[head_bytes:]

    def _mode(self, *, follow: bool = True) -> int:
        try:
            return self.status(follow=follow).st_mode
        except OSError as error:
            if error.errno not in _NOTHING:
                raise
            return 0

    def _path(self, name: str) -> Path:
        return cast("Path", self / name)

    def _ask(self, question: str, **asked: Any) -> Response:
        return self.channel.request(question, path=str(self), **asked)

    def _change(self, question: str, data: bytes = b"", **asked: Any) -> Response:
        self.cache.invalidate(str(self))
        return self.channel.request(question, data, path=str(self), **asked)

    def _tell(self, question: str, data: bytes = b"", **asked: Any) -> None:
        self.cache.invalidate(str(self))
        self.channel.send(question, data, path=str(self), **asked)


def path_class(channel: SshChannel, cache: StatCache, user: int) -> type[SshPath]:
    """A subclass of SshPath that is bound to one host: paths derived from its instances are too."""
    return type("BoundSshPath", (SshPath,), {"channel": channel, "cache": cache, "user": user})
