"""Small JSON files that several hosts read and change: rows by their names, damaged files, locks."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from batchai_magics.backends.folders import private_files
from batchai_magics.errors import DISK_FULL, SpecError, StorageError, is_disk_full
from batchai_magics.untrusted_files import NotRegularError, read_json

Content = TypeVar("Content")

LOCK_EXPIRY_S = 60.0  # an older lock belongs to a process that died
_POLL_S = 0.02


class FileRows:
    """Named rows: JSON objects whose names are matched case-insensitively, each a file of a folder of a home.

    `make_home` makes the home, or closes it to others, before something is written there.
    A row with a text that cannot be encoded raises a SpecError; a damaged one a StorageError, and is left out
    of lists with a warning.
    """

    def __init__(self, folder: Path, make_home: Callable[[], None] = lambda: None) -> None:
        self._folder, self._make_home = folder, make_home

    def find(self, name: str) -> dict[str, Any] | None:
        """The row of that name; None if it does not exist."""
        return _row(self._file(name))

    def all(self) -> list[dict[str, Any]]:
        """All rows, sorted by name."""
        files = sorted(self._folder.glob("*.json"), key=lambda file: file.stem)
        return [*readable(_row, files)]

    def insert(self, name: str, row: Mapping[str, Any]) -> None:
        """Adds a row unless it exists."""
        with self._changed(name) as file:
            private_files.write_new(file, _row_text(name, row))

    def change(self, name: str, **values: Any) -> None:
        """Changes values of a row under a lock, if it exists."""
        with self._changed(name) as file, locked(file.with_suffix(".lock")):
            if row := _row(file):
                private_files.write(file, _row_text(name, {**row, **values}))

    def delete(self, name: str) -> None:
        """Deletes a row, if it exists."""
        self._file(name).unlink(missing_ok=True)

    @contextlib.contextmanager
    def _changed(self, name: str) -> Iterator[Path]:
        """The file of a row that is written within the context; StorageError if that fails."""
        self._make_home()
        try:
            yield self._file(name)
        except OSError as error:
            is_full = is_disk_full(error)
            text = f"{self._folder.parent} cannot be written: {error.strerror}"
            hint = "Free some space and try again." if is_full else ""
            raise StorageError(text, code=DISK_FULL if is_full else "StateUnavailable", hint=hint) from error

    def _file(self, name: str) -> Path:
        return self._folder / f"={name.lower()}.json"


def _row_text(name: str, row: Mapping[str, Any]) -> str:
    from batchai_magics.models.documents.spec_problems import surrogates_in  # loads pydantic

    if problems := [*surrogates_in(row, "")]:
        raise SpecError(problems, what=name)
    return json.dumps(row)


def _row(file: Path) -> dict[str, Any] | None:
    with refusing_damaged(file):
        row: dict[str, Any] = dict(read_json(file))
        if "name" not in row:
            raise ValueError("it has no name")
        return row
    return None


@contextlib.contextmanager
def refusing_damaged(file: Path) -> Iterator[None]:
    """Within the context, a damaged file raises a StorageError; a missing one ends the context."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (NotRegularError, ValueError, TypeError) as error:
        text = f"the record {file} is damaged: {error}"
        raise StorageError(text, code="StateUnavailable", hint="Restore or delete this file.") from None


def readable(read: Callable[[Path], Content | None], files: Iterable[Path]) -> Iterator[Content]:
    """What files hold, for lists: a damaged one is left out of them, with a warning."""
    for file in files:
        try:
            content = read(file)
        except StorageError as error:
            warnings.warn(error.message, RuntimeWarning, stacklevel=2)
        else:
            if content is not None:
                yield content


@contextlib.contextmanager
def locked(file: Path) -> Iterator[None]:
    """Holds the lock of a file within the context, across hosts; the first process to link it wins."""
    deadline = time.monotonic() + 2 * LOCK_EXPIRY_S
    while not try_lock(file):
        if time.monotonic() > deadline:
            raise StorageError(f"{file} is not given up", hint="Delete it if no process uses it.")
        time.sleep(_POLL_S)
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


def try_lock(file: Path) -> bool:
    """Tries to take a lock; False if it is held. Locks of dead processes expire after a minute."""
    if private_files.write_new(file, f"{socket.gethostname()} {os.getpid()} {uuid.uuid4().hex}\n"):
        return True
    # An old lock is moved away; both times are of one clock, the file system's.
    probe = file.with_name(f"{file.name}.{uuid.uuid4().hex}")
    try:
        private_files.write(probe, "")
        with contextlib.suppress(FileNotFoundError):
            if probe.stat().st_mtime - file.stat().st_mtime > LOCK_EXPIRY_S:
                file.rename(probe)
    finally:
        probe.unlink(missing_ok=True)
    return False
