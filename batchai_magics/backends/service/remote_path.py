"""Paths on another machine, with operations that take one round trip each."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path, PurePosixPath
from typing import BinaryIO, NamedTuple, TypeGuard


class FileStatus(NamedTuple):
    """The metadata of a file, with the field names of `os.stat_result`."""

    st_mode: int
    st_size: int
    st_mtime_ns: int
    st_uid: int
    st_ino: int
    st_dev: int

    @property
    def st_mtime(self) -> float:
        """When it was last modified, in seconds since 1970."""
        return self.st_mtime_ns / 1e9


class DirectoryEntry(NamedTuple):
    """An entry of a folder. A link that stays inside the root has the metadata of its target."""

    name: str
    mode: int
    size_bytes: int
    modified: float
    is_link: bool = False


class RemotePath(PurePosixPath):
    """A path on another machine: it has the methods of `Path`, but is not `os.PathLike`."""

    def __fspath__(self) -> str:
        raise TypeError(f"{self} is on another machine")

    @abstractmethod
    def status(self, *, follow: bool) -> FileStatus:
        """The metadata of the file, or with `follow` false of a symbolic link itself."""

    @abstractmethod
    def make_folder(self, mode: int) -> None:
        """Creates the folder and its parents unless they exist."""

    @abstractmethod
    def write_atomic(self, data: bytes, mode: int, *, sync: bool = False, parents: bool = True) -> None:
        """Writes the file atomically; with `parents` creates missing folders."""

    @abstractmethod
    def write_exclusive(self, data: bytes, mode: int, *, needs: RemotePath | None = None) -> bool:
        """Writes a new file atomically, with its folder; returns False if it exists.

        Raises:
            FileNotFoundError: The path that it `needs` does not exist.
        """

    @abstractmethod
    def make_link(self, target: RemotePath) -> None:
        """Creates a symbolic link here, and its folder, unless there is a link already."""

    @abstractmethod
    def pipelined(self) -> AbstractContextManager[None]:
        """A context in which changes without a result may be sent together.

        The error of one is raised by the next operation or on exit; later changes are not made.
        """

    @abstractmethod
    def write_at(self, data: bytes, offset: int, *, cut: bool = False, mode: int | None = None) -> None:
        """Writes at an offset; truncates the file behind it with `cut`, creates it with a `mode`."""

    @abstractmethod
    def digest(self, *, sync: bool = False) -> str:
        """The SHA-256 (hex) of the file."""

    @abstractmethod
    def open_regular(self) -> BinaryIO:
        """Opens a regular file to read its bytes; raises `untrusted_files.NotRegularError` for another."""

    @abstractmethod
    def read_slice(self, offset: int, limit: int, *, head: int = 0) -> tuple[FileStatus, bytes, bytes]:
        """The status, the first `head` bytes and a range of a regular file, from one open file descriptor."""

    @abstractmethod
    def scan(self, root: RemotePath, limit: int | None = None) -> Sequence[DirectoryEntry]:
        """The entries of this folder sorted by name, at most `limit` of them."""

    @abstractmethod
    def entry(self, root: RemotePath) -> DirectoryEntry:
        """The entry of this path itself; raises FileNotFoundError if it does not exist."""

    @abstractmethod
    def resolve(self) -> Path:
        """The path with symbolic links resolved, as far as it exists."""

    @abstractmethod
    def is_writable(self) -> bool:
        """Whether the user may write here."""

    @abstractmethod
    def expected_owner(self) -> int:
        """The uid that must own our files there."""

    @abstractmethod
    def is_dir(self) -> bool:
        """Whether it is a folder, or a link to one."""

    @abstractmethod
    def touch(self, mode: int = 0o666, exist_ok: bool = True) -> None:
        """Creates an empty file unless it exists."""

    @abstractmethod
    def unlink(self, missing_ok: bool = False) -> None:
        """Deletes the file or link."""

    @abstractmethod
    def rmtree(self, *, ignore_errors: bool = False) -> None:
        """Deletes the folder recursively."""


def is_remote(path: object) -> TypeGuard[RemotePath]:
    """Whether a path is on another machine."""
    return isinstance(path, RemotePath)
