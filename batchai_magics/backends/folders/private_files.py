"""Folders and files that only their owner can access, here and on other machines; homes; full disks."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager
from itertools import chain
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, TypeGuard

from batchai_magics.errors import StorageError, is_disk_full

if TYPE_CHECKING:
    from batchai_magics.backends.machines.ssh_machine import SshPath


def is_remote(path: object) -> TypeGuard[SshPath]:
    """Whether a path is on another machine: a pure path, which this one cannot open."""
    return isinstance(path, PurePath) and not isinstance(path, Path)


FOLDER, FILE = 0o700, 0o600
_LONGEST = 1_000  # bytes of a path below a folder that is deleted; Linux takes 4,095 in all


def make_folder(path: Path) -> None:
    """Creates a folder and its parents unless they exist."""
    if is_remote(path):
        return path.make_folder(FOLDER)
    try:
        path.mkdir(mode=FOLDER, exist_ok=True)
    except FileNotFoundError:
        if path.parent == path:
            raise
        make_folder(path.parent)
        path.mkdir(mode=FOLDER, exist_ok=True)  # fails below /proc, where nothing can be created


def opener(path: str, flags: int) -> int:
    """For `open(…, opener=opener)`: creates files that only their owner can access."""
    return os.open(path, flags, FILE)


def write(file: Path, text: str) -> None:
    """Writes a file atomically."""
    if is_remote(file):
        return file.write_atomic(text.encode(), FILE)
    make_folder(file.parent)
    part = file.with_name(f"{file.name}.part")
    part.unlink(missing_ok=True)
    with open(part, "x", encoding="utf-8", opener=opener) as stream:
        stream.write(text)
    part.replace(file)


def write_new(file: Path, text: str, *, needs: Path | None = None) -> bool:
    """Creates a file atomically; False if it exists. Of concurrent calls, exactly one succeeds.

    Raises FileNotFoundError if the path that it `needs` does not exist.
    """
    if is_remote(file):
        assert needs is None or is_remote(needs), "both are on one machine"
        return file.write_exclusive(text.encode(), FILE, needs=needs)
    if needs:
        needs.stat()
    make_folder(file.parent)
    part = file.with_name(f"{file.name}.{os.urandom(16).hex()}")
    try:
        with open(part, "x", encoding="utf-8", opener=opener) as stream:
            stream.write(text)
        file.hardlink_to(part)
    except FileExistsError:
        return False
    finally:
        part.unlink(missing_ok=True)
    return True


def make_link(path: Path, target: Path) -> None:
    """Creates a link and its folder, unless there is a link already."""
    if is_remote(path):
        assert is_remote(target), "both are on one machine"
        return path.make_link(target)
    make_folder(path.parent)
    if not path.is_symlink():
        path.symlink_to(target, target_is_directory=True)


def pipelined(path: Path) -> contextlib.AbstractContextManager[None]:
    """Within the context, writes on a remote machine may be pipelined, and fail when it exits."""
    return path.pipelined() if is_remote(path) else contextlib.nullcontext()


def read_ahead(
    folders: Collection[Path] = (), files: Collection[Path] = (), *, listed: Collection[Path] = ()
) -> AbstractContextManager[None]:
    """Within the context, this thread may read these paths of a remote machine from a cache.

    The first of them that is read fetches all, also those of the contexts around, with one request: the
    files, and what is directly in the folders. Of files in `listed` folders only the metadata is cached.
    Local files are read directly.
    """
    path = next(chain(folders, files, listed), None)
    return path.read_ahead(folders, files, listed) if is_remote(path) else contextlib.nullcontext()


def append(file: Path, text: str) -> None:
    """Appends to a file."""
    if not file.exists():
        make_folder(file.parent)
    with open(file, "a", encoding="utf-8", opener=opener) as stream:
        stream.write(text)


def remove_folder(path: Path) -> None:
    """Deletes a folder recursively, as far as possible."""
    if is_remote(path):
        return path.rmtree(ignore_errors=True)
    if not os.path.lexists(path):
        return None
    import shutil  # later: few who write files remove trees

    with contextlib.suppress(RecursionError):
        shutil.rmtree(path, ignore_errors=True)
    if path.is_dir() and not path.is_symlink():
        remove_unmounted(path)


def remove_unmounted(path: Path, mounted: Collection[str] = ()) -> None:
    """Deletes a folder as far as possible, but not what is mounted in it; OSError if it does not exist.

    It also deletes folders without permissions, and trees deeper than recursion or the length of a path
    allows: a folder whose path is too long for a system call is moved to the top first.
    """
    folders, limit, device = [path], len(os.fsencode(path)) + _LONGEST, path.lstat().st_dev
    mount_points = {point for point in mounted if point.startswith(f"{path}/")}
    for index, folder in enumerate(folders):  # the list grows
        with contextlib.suppress(OSError):
            # The mount table has bind mounts; the device shows what was mounted since it was read.
            if str(folder) in mount_points or folder.is_symlink() or folder.lstat().st_dev != device:
                continue
            is_long = len(os.fsencode(folder)) > limit
            if is_long and mount_points:  # what is moved would be mounted elsewhere
                continue
            folder.chmod(FOLDER)  # a script may have removed permissions; to move it changes its `..`
            if is_long:
                folders[index] = folder.rename(path / os.urandom(16).hex())
        for entry in _entries(folders[index]):
            with contextlib.suppress(OSError):  # one failure keeps its folder, not the others
                if entry.is_dir(follow_symlinks=False):
                    folders.append(Path(entry.path))
                else:
                    Path(entry.path).unlink()
    for folder in reversed(folders):
        with contextlib.suppress(OSError):
            folder.rmdir()


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        return list(entries)
    return []


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
        code = "HomeNotOwned" if isinstance(error, PermissionError) else ""
        raise StorageError(f"{home} cannot be used: {error.strerror}", code=code, hint=hint) from error
    is_own = status.st_uid == (home.expected_owner() if is_remote(home) else os.geteuid())
    if is_read_only(home) and (is_own or is_listable(home)):  # nothing will be written there
        return
    if not is_own:
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


def is_listable(folder: Path) -> bool:
    """Whether a folder's entries can be read."""
    try:
        next(iter(folder.iterdir()), None)
    except PermissionError:
        return False
    return True


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


@contextlib.contextmanager
def left_for_later_if_full() -> Iterator[None]:
    """Within the context, writes are skipped if the disk is full; they are repeated on the next poll."""
    try:
        yield
    except OSError as error:
        if not is_disk_full(error):
            raise
