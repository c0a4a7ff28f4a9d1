"""Folders and files for their owner alone, whatever the umask is."""

from __future__ import annotations

import os
from pathlib import Path

from batchai_magics.backends.service.elsewhere import is_elsewhere

FOLDER, FILE = 0o700, 0o600


def make_folder(path: Path) -> None:
    """Makes a folder, and those above it that are not there, unless it is there."""
    if is_elsewhere(path):
        return path.make_folder(FOLDER)
    try:
        path.mkdir(mode=FOLDER)
    except FileNotFoundError:
        make_folder(path.parent)
        make_folder(path)
    except FileExistsError:
        if not path.is_dir():
            raise


def opener(path: str, flags: int) -> int:
    """For `open(…, opener=opener)`: a file that is made by it is its owner's alone."""
    return os.open(path, flags, FILE)


def write(file: Path, text: str) -> None:
    """Writes a file, whole or not at all."""
    if is_elsewhere(file):
        return file.put(text.encode(), FILE)
    make_folder(file.parent)
    part = file.with_name(f"{file.name}.part")
    part.unlink(missing_ok=True)
    with open(part, "x", encoding="utf-8", opener=opener) as stream:
        stream.write(text)
    part.replace(file)


def append(file: Path, text: str) -> None:
    """Adds to a file's end."""
    make_folder(file.parent)
    with open(file, "a", encoding="utf-8", opener=opener) as stream:
        stream.write(text)


def remove_folder(path: Path) -> None:
    """Deletes a folder with all in it, as far as that can be done."""
    if is_elsewhere(path):
        return path.rmtree(ignore_errors=True)
    import shutil  # later: few who write files remove trees

    shutil.rmtree(path, ignore_errors=True)
