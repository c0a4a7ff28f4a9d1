"""The class of all our actors: each runs an object of the programs of a home, or of a copy of them.

Ray sends this class as code, since nodes import the programs from the home. Standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import os
import shutil
import socket
import sys
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

HOME_ID = "home-id"  # the file in a home with the id that its copies name
COPY_MARK = "copied-home"  # the file with that id, which only a copy has
PROGRAMS = "programs"
SEEN, COPIED_HOME = "seen", "copied"  # whether an actor's node sees the home or has a copy
SHARES = ("shares", "containers", "fileservers")
COPIED = (*SHARES, "jobs", "clusters", "unfinished")  # the folders that a copy consists of
_OF_HOMES = (HOME_ID, "resources")  # entries that only a home itself has


@contextlib.contextmanager
def locked(folder: Path, operation: int) -> Iterator[None]:
    """Holds a lock on a folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, operation)
        yield
    finally:
        os.close(descriptor)


def copied_from(folder: Path) -> str:
    """The id of the home that a folder is a copy of; empty if it is not a copy."""
    return "" if is_home(folder) else text_of(folder / COPY_MARK)


def is_home(folder: Path) -> bool:
    """Whether a folder has an entry that only a home itself has."""
    return any((folder / name).exists() for name in _OF_HOMES)


def is_spent(folder: Path) -> bool:
    """Whether a folder is a copy without files of a run."""
    names, jobs = {entry.name for entry in folder.iterdir()}, folder / "jobs"
    is_copy = COPY_MARK in names and names <= {COPY_MARK, PROGRAMS, *COPIED} and not is_home(folder)
    return is_copy and not (jobs.is_dir() and any(jobs.iterdir()))


def text_of(file: Path) -> str:
    """The text of a file; empty if it does not exist."""
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


class ActorTarget:
    """Runs an object of the class `target`, `module.Class`, imported from a folder of programs."""

    def __init__(self, target: str, programs: str, *arguments: object) -> None:
        self._class, self._arguments, self._programs = target, arguments, Path(programs)
        self._home = self._programs.parents[1]
        self._target: Any = None
        if self._programs.is_dir():
            self._load()

    def _load(self) -> None:
        module, _, name = self._class.rpartition(".")
        sys.path.insert(0, str(self._programs))
        self._target = getattr(importlib.import_module(module), name)(*self._arguments)

    def home(self, owner: str) -> str:
        """SEEN if the home of that id is here, COPIED_HOME if a copy of it is; empty without programs."""
        if not self._target:
            return ""
        if text_of(self._home / HOME_ID) == owner:
            return SEEN
        return COPIED_HOME if copied_from(self._home) == owner else ""

    def install(self, files: Mapping[str, bytes], owner: str) -> str:
        """Installs programs in a copy of the home of that id; returns why that is impossible, or empty."""
        part = self._programs.with_name(uuid.uuid4().hex)
        try:
            self._home.mkdir(0o700, parents=True, exist_ok=True)
            if not self._belongs_to(owner):
                return f"has another folder at {self._home}"
            for path, data in files.items():
                (part / path).parent.mkdir(0o700, parents=True, exist_ok=True)
                (part / path).write_bytes(data)
            part.rename(self._programs)
        except OSError as error:
            shutil.rmtree(part, ignore_errors=True)
            if not self._programs.is_dir():  # else another actor was faster
                return f"does not see {self._home}, and cannot make a copy there: {error.strerror}"
        if not self._target:
            self._load()
        return ""

    def _belongs_to(self, owner: str) -> bool:
        """Marks the folder as a copy; False if it is something else, or in use for another home."""
        mark = self._home / COPY_MARK
        with locked(self._home, fcntl.LOCK_EX):
            if copied_from(self._home) != owner:
                if any(self._home.iterdir()) and not is_spent(self._home):
                    return False
                for name in COPIED:
                    shutil.rmtree(self._home / name, ignore_errors=True)
                if any((self._home / name).exists() for name in COPIED):
                    return False
                mark.write_text(owner, encoding="utf-8")
            if is_home(self._home):  # made meanwhile
                mark.unlink(missing_ok=True)
                return False
        return True

    def host(self) -> str:
        """The name of this machine."""
        return socket.gethostname()

    def call(self, method: str, *arguments: object) -> object:
        """Calls a method of the object; NotADirectoryError if there are no programs."""
        if not self._target:
            raise NotADirectoryError(f"{socket.gethostname()} does not see {self._home}")
        return getattr(self._target, method)(*arguments)
