"""A home that is its owner's alone, or becomes so."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from batchai_magics.backends.service.private_files import FILE, FOLDER, make_folder, opener
from batchai_magics.backends.service.remote_path import is_remote
from batchai_magics.errors import StorageError

OTHERS = 0o077
_OURS = ("state.db", "jobs", "clusters", "shares", "containers", "fileservers")  # one of them makes a home


def make_home(home: Path, *, setting: str = "BATCHAI_HOME") -> None:
    """Makes the home, or makes sure that it is its owner's alone; a StorageError when that cannot be.

    `setting` is what names the home.
    """
    try:
        make_folder(home)
        found = home.stat()
    except OSError as error:
        hint = f"Set {setting} to a folder that you can write."
        raise StorageError(f"{home} cannot be used: {error.strerror}", hint=hint) from error
    if is_read_only(home):  # nothing will be written there
        return
    if found.st_uid != (home.expected_owner() if is_remote(home) else os.geteuid()):
        text = f"{home} belongs to another user (number {found.st_uid})"
        raise StorageError(text, code="HomeNotOwned", hint=_choose(setting))
    if found.st_mode & OTHERS:
        _close(home, found.st_mode, setting)


def _choose(setting: str) -> str:
    return f"Set {setting} to an empty folder of your own."


def is_read_only(folder: Path) -> bool:
    """Whether nothing can be written there."""
    if is_remote(folder):
        return not folder.is_writable()
    return not os.access(folder, os.W_OK)


def make_file(path: Path) -> None:
    """Makes an empty file unless it is there; then it is taken away from everybody but its owner.

    One that is there is not opened: to close a database takes the locks of all that have it open here.
    """
    if not path.exists():
        os.close(opener(str(path), os.O_RDWR | os.O_CREAT))
    if path.stat().st_mode & OTHERS:
        path.chmod(FILE)


def _close(home: Path, mode: int, setting: str) -> None:
    names = [item.name for item in home.iterdir()]
    if mode & stat.S_ISVTX or (names and not any(name in _OURS for name in names)):
        text = f"{home} is open to other users, and holds what is not ours"
        hint = f"{_choose(setting)} If it is meant to be the home, close it yourself: chmod 700 {home}"
        raise StorageError(text, code="HomeNotPrivate", hint=hint)
    try:
        home.chmod(FOLDER)
    except OSError as error:
        text = f"{home} is open to other users, and cannot be closed: {error.strerror}"
        raise StorageError(text, code="HomeNotPrivate", hint=_choose(setting)) from error
