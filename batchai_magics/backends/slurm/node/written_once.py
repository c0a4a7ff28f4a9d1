"""Small files that are written once, atomically, by whichever process links them first."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from batchai_magics.backends.service import private_files
from batchai_magics.backends.service.remote_path import is_remote

T = TypeVar("T")


def overwrite(file: Path, data: bytes) -> None:
    """Overwrites existing bytes, which needs no additional disk space."""
    if is_remote(file):
        return file.write_at(data, 0, cut=True)
    with file.open("r+b") as stream:
        stream.write(data)
        stream.truncate()


def read_as(kind: Callable[..., T], file: Path) -> T | None:
    """Reads a file as a value of that type; None if it does not exist."""
    try:
        return kind(**json.loads(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None


def write_once(file: Path, value: Any) -> bool:
    """Writes a new file atomically; False if it exists."""
    return private_files.write_new(file, json.dumps(value))


def link_once(part: Path, file: Path) -> bool:
    """Links a complete file to its name; False if that exists."""
    try:
        file.hardlink_to(part)
    except FileExistsError:
        return False
    return True


def written_at(file: Path) -> float:
    """The file's mtime, by its file system's clock; 0.0 if it does not exist."""
    try:
        return file.stat().st_mtime
    except FileNotFoundError:
        return 0.0
