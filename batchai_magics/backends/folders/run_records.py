"""Reads the record files in a run's folder; see `batchai_magics.records.record_files`."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from batchai_magics.backends.folders.entries import resolve_inside
from batchai_magics.models.secret_masking import MASK, SecretMask, is_secret_name
from batchai_magics.records.parameters import Parameter, bounded
from batchai_magics.records.record_files import MAX_BYTES

_MISSING = (FileNotFoundError, NotADirectoryError, IsADirectoryError)


def read(folder: Path, names: Collection[str]) -> Mapping[str, bytes]:
    """The files with these names, and those in these folders (`machines/`); missing ones are left out.

    At most `MAX_BYTES` of each file are read.
    """
    found = {}
    for name in (each for asked in names for each in _expanded(folder, asked)):
        with contextlib.suppress(*_MISSING), (folder / name).open("rb") as stream:
            found[name] = stream.read(MAX_BYTES)
    return found


def parameters(file: Path) -> dict[str, Parameter]:
    """The parameters that a run has logged, without secrets; empty if the file is missing or unreadable."""
    try:
        data = json.loads(file.read_bytes()[:MAX_BYTES])
    except (OSError, ValueError):
        return {}
    found = bounded(data) if isinstance(data, dict) else {}
    mask = SecretMask()
    return {
        name: MASK if is_secret_name(name) else mask(value) if isinstance(value, str) else value
        for name, value in found.items()
    }


def _expanded(folder: Path, name: str) -> Iterator[str]:
    path = resolve_inside(folder, name)
    if not name.endswith("/"):
        yield name
        return
    with contextlib.suppress(*_MISSING):
        yield from sorted(
            f"{name}{entry.name}" for entry in path.iterdir() if not entry.name.endswith(".part")
        )
