"""Creates a home that only its owner can access, or restricts it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from batchai_magics.backends.service.private_files import FILE, FOLDER, make_folder, opener
from batchai_magics.backends.service.remote_path import is_remote
from batchai_magics.errors import StorageError

OTHERS = 0o077
_HOME_ENTRIES = (
    "state.db",
    "jobs",
    "clusters",
    "shares",
    "containers",
    "fileservers",
)  # in any home


def make_home(home: Path, *, setting: str = "BATCHAI_HOME") -> None:
    """Creates the home, or restricts it to its owner; StorageError if that fails.

    `setting` is the setting that selects it.
    """
    try:
        make_folder(home)
        status = home.stat()
    except OSError as error:
        hint = f"Set {setting} to a folder that you can write."
        raise StorageError(f"{home} cannot be used: {error.strerror}", hint=hint) from error
    if is_read_only(home):  # nothing will be written there
        return
    if status.st_uid != (home.expected_owner() if is_remote(home) else os.geteuid()):
        text = f"{home} belongs to another user (uid {status.st_uid})"
        raise StorageError(text, code="HomeNotOwned", hint=_choose(setting))
    if status.st_mode & OTHERS:
        _restrict(home, status.st_mode, setting)


def _choose(setting: str) -> str:
    return f"Set {setting} to an empty folder of your own."


def is_read_only(folder: Path) -> bool:
    """Whether nothing can be written there."""
    if is_remote(folder):
        return not folder.is_writable()
    return not os.access(folder, os.W_OK)


def make_file(path: Path) -> None:
    """Creates an empty file unless it exists, and restricts it to its owner.

    An existing file is not opened: closing a database would release the locks of other users in this process.
    """
    if not path.exists():
        os.close(opener(str(path), os.O_RDWR | os.O_CREAT))
    if path.stat().st_mode & OTHERS:
        path.chmod(FILE)


def _restrict(home: Path, mode: int, setting: str) -> None:
    names = [item.name for item in home.iterdir()]
    if mode & stat.S_ISVTX or (names and not any(name in _HOME_ENTRIES for name in names)):
        text = f"{home} is open to other users, and holds what is not ours"
        hint = f"{_choose(setting)} If it is meant to be the home, close it yourself: chmod 700 {home}"
        raise StorageError(text, code="HomeNotPrivate", hint=hint)
    try:
        home.chmod(FOLDER)
    except OSError as error:
        text = f"{home} is open to other users, and cannot be closed: {error.strerror}"
        raise StorageError(text, code="HomeNotPrivate", hint=_choose(setting)) from error
