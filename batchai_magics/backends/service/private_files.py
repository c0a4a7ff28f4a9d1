"""Folders and files for their owner alone, whatever the umask is."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from batchai_magics.backends.service.remote_path import is_remote

FOLDER, FILE = 0o700, 0o600


def make_folder(path: Path) -> None:
    """Makes a folder, and those above it that are not there, unless it is there."""
    if is_remote(path):
        return path.make_folder(FOLDER)
    try:
        _make_one(path)
    except FileNotFoundError:
        if path.parent == path:
            raise
        make_folder(path.parent)
        _make_one(path)  # below /proc nothing can be made, though the folder above is there


def _make_one(path: Path) -> None:
    try:
        path.mkdir(mode=FOLDER)
    except FileExistsError:
        if not path.is_dir():
            raise


def opener(path: str, flags: int) -> int:
    """For `open(…, opener=opener)`: a file that is made by it is its owner's alone."""
    return os.open(path, flags, FILE)


def write(file: Path, text: str) -> None:
    """Writes a file, whole or not at all."""
    if is_remote(file):
        return file.write_atomic(text.encode(), FILE)
    make_folder(file.parent)
    part = file.with_name(f"{file.name}.part")
    part.unlink(missing_ok=True)
    with open(part, "x", encoding="utf-8", opener=opener) as stream:
        stream.write(text)
    part.replace(file)


def write_new(file: Path, text: str, *, needs: Path | None = None) -> bool:
    """Writes a file that is not there, whole or not at all; False when it is there: of many, one is first.

    FileNotFoundError when what it `needs` is not there.
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
    """Makes a link, and the folder that it is in, unless there is one."""
    if is_remote(path):
        assert is_remote(target), "both are on one machine"
        return path.make_link(target)
    make_folder(path.parent)
    if not path.is_symlink():
        path.symlink_to(target, target_is_directory=True)


def at_once(path: Path) -> contextlib.AbstractContextManager[None]:
    """Within it, what is written on the machine of a path may be written together, and fail at the end."""
    return path.pipelined() if is_remote(path) else contextlib.nullcontext()


def append(file: Path, text: str) -> None:
    """Adds to a file's end."""
    make_folder(file.parent)
    with open(file, "a", encoding="utf-8", opener=opener) as stream:
        stream.write(text)


def remove_folder(path: Path) -> None:
    """Deletes a folder with all in it, as far as that can be done."""
    if is_remote(path):
        return path.rmtree(ignore_errors=True)
    import shutil  # later: few who write files remove trees

    shutil.rmtree(path, ignore_errors=True)
    if path.is_dir():
        _open_folders(path)
        shutil.rmtree(path, ignore_errors=True)


def _open_folders(path: Path) -> None:
    """Gives their owner the right to change all folders in a folder: a script may have closed them."""
    for folder, names, _ in os.walk(path):
        for inside in (Path(folder, name) for name in names):
            if not inside.is_symlink():
                with contextlib.suppress(OSError):
                    inside.chmod(FOLDER)
