"""Small files that are written once, whole or not at all, by whoever links them first."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from batchai_magics.backends.service import private_files
from batchai_magics.backends.service.remote_path import is_remote

Told = TypeVar("Told")


def overwrite(file: Path, data: bytes) -> None:
    """Writes where there are bytes already: no room is needed for as many."""
    if is_remote(file):
        return file.write_at(data, 0, cut=True)
    with file.open("r+b") as stream:
        stream.write(data)
        stream.truncate()


def read_as(kind: Callable[..., Told], file: Path) -> Told | None:
    """What a file holds as a value of that kind; None where there is none."""
    try:
        return kind(**json.loads(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None


def write_once(file: Path, value: Any) -> bool:
    """Writes a file that was not there, whole or not at all; False when it was there."""
    return private_files.write_new(file, json.dumps(value))


def link_once(part: Path, file: Path) -> bool:
    """Gives a file that is whole its name; False when another has it."""
    try:
        file.hardlink_to(part)
    except FileExistsError:
        return False
    return True


def written_at(file: Path) -> float:
    """When a file was written, by the clock of its file system; 0.0 where there is none."""
    try:
        return file.stat().st_mtime
    except FileNotFoundError:
        return 0.0
