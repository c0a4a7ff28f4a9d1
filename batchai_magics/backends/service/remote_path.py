"""Paths on another machine: what would take many questions there takes one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path, PurePosixPath
from typing import NamedTuple, TypeGuard


class FileStatus(NamedTuple):
    """What `stat` says of a file; the same names as those of `os.stat_result`."""

    st_mode: int
    st_size: int
    st_mtime_ns: int
    st_uid: int
    st_ino: int
    st_dev: int

    @property
    def st_mtime(self) -> float:
        """When it was changed, in seconds since 1970."""
        return self.st_mtime_ns / 1e9


class DirectoryEntry(NamedTuple):
    """Something in a folder. A link that stays inside of the place counts as what it leads to."""

    name: str
    mode: int
    size_bytes: int
    modified: float
    is_link: bool = False


class RemotePath(PurePosixPath):
    """A path on another machine: like `Path`, whose verbs it has, but no system call here takes it."""

    def __fspath__(self) -> str:
        raise TypeError(f"{self} is on another machine")

    @abstractmethod
    def status(self, *, follow: bool) -> FileStatus:
        """What it leads to, or what it is itself."""

    @abstractmethod
    def make_folder(self, mode: int) -> None:
        """Makes a folder and those above it, unless they are there."""

    @abstractmethod
    def write_atomic(self, data: bytes, mode: int, *, sync: bool = False, parents: bool = True) -> None:
        """Writes a file, whole or not at all; with `parents` its folder where there is none."""

    @abstractmethod
    def write_exclusive(self, data: bytes, mode: int, *, needs: RemotePath | None = None) -> bool:
        """Writes a file that is not there, with its folder, whole or not at all; False when it is there.

        FileNotFoundError when what it `needs` is not there.
        """

    @abstractmethod
    def make_link(self, target: RemotePath) -> None:
        """Makes it a link, and the folder that it is in, unless it is one."""

    @abstractmethod
    def pipelined(self) -> AbstractContextManager[None]:
        """Within it, this thread's changes whose answers nobody needs may be made together.

        What goes wrong with one is raised by what comes next, or at the end; no more is done then.
        """

    @abstractmethod
    def write_at(self, data: bytes, offset: int, *, cut: bool = False, mode: int | None = None) -> None:
        """Writes into a file, which ends there if it is to be cut; with a mode it is made."""

    @abstractmethod
    def digest(self, *, sync: bool = False) -> str:
        """The SHA-256 (hex) of a file."""

    @abstractmethod
    def read_piece(self, offset: int, limit: int, *, head: int = 0) -> tuple[FileStatus, bytes, bytes]:
        """Of a regular file, all of one moment: its status, its first bytes, a piece of it."""

    @abstractmethod
    def entries_below(self, root: RemotePath, limit: int | None = None) -> Sequence[DirectoryEntry]:
        """What lies in this folder, sorted by name, or the first of it."""

    @abstractmethod
    def entry(self, root: RemotePath) -> DirectoryEntry:
        """What lies here; FileNotFoundError when there is nothing."""

    @abstractmethod
    def resolve(self) -> Path:
        """The path without links, as far as there is one."""

    @abstractmethod
    def is_writable(self) -> bool:
        """Whether something can be written here."""

    @abstractmethod
    def expected_owner(self) -> int:
        """The number of the user who has to own what is ours there."""

    @abstractmethod
    def is_dir(self) -> bool:
        """Whether it leads to a folder."""

    @abstractmethod
    def touch(self, mode: int = 0o666, exist_ok: bool = True) -> None:
        """Makes an empty file where there is none."""

    @abstractmethod
    def unlink(self, missing_ok: bool = False) -> None:
        """Deletes this name."""

    @abstractmethod
    def rmtree(self, *, ignore_errors: bool = False) -> None:
        """Deletes a folder with all in it."""


def is_remote(path: object) -> TypeGuard[RemotePath]:
    """Whether a path is on another machine."""
    return isinstance(path, RemotePath)
