"""Metadata of shares and containers and what is in them: a client's own words, kept beside the files."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import escape

from batchai_magics.backends.service.private_files import append, write
from batchai_magics.server.call import Call
from batchai_magics.server.storage.errors import StorageRefusal

_HEADER = "x-ms-meta-"
_NAME = re.compile(r"[a-z_]\w*", re.ASCII)
_MOST_BYTES = 8 << 10  # names and values of one thing, as Azure has it


def said(call: Call) -> dict[str, str]:
    """The metadata that a request brings; their names in small letters, as HTTP passes them on.

    Raises StorageRefusal for a name that is none of C#'s, and for more than 8 KiB.
    """
    headers = [header for header in call.headers if header.startswith(_HEADER)]
    found = {header.removeprefix(_HEADER): call.headers[header].strip() for header in headers}
    for name in found:
        _check_name(name)
    if sum(len(name) + len(value) for name, value in found.items()) > _MOST_BYTES:
        raise StorageRefusal(400, "MetadataTooLarge", f"Metadata may have {_MOST_BYTES} bytes.")
    return found


def headers(metadata: Mapping[str, str]) -> dict[str, str]:
    """The metadata as an answer tells them."""
    return {f"{_HEADER}{name}": value for name, value in metadata.items()}


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        code = "InvalidMetadata" if name else "EmptyMetadataKey"
        raise StorageRefusal(400, code, f"{name!r} is no name of metadata: use letters, digits and _.")


def element(call: Call, metadata: Mapping[str, str]) -> str:
    """The metadata of something in a list as XML, where the request wants them."""
    if "metadata" not in call.query.get("include", "").split(","):
        return ""
    inner = "".join(f"<{name}>{escape(value)}</{name}>" for name, value in metadata.items())
    return f"<Metadata>{inner}</Metadata>"


class Metadata:
    """What is kept of each thing, by its resource's key: a journal, which the next server writes anew."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._kept = _read(file)
        if file.exists():
            lines = (_line(key, metadata) for key, metadata in self._kept.items())
            write(file, "".join(lines))

    def of(self, key: str) -> Mapping[str, str]:
        """The metadata of one thing; empty where there are none."""
        return self._kept.get(key, {})

    def keep(self, key: str, metadata: Mapping[str, str]) -> None:
        """Puts metadata in place of those that there were."""
        with self._lock:
            if metadata != self.of(key):
                self._put(key, metadata)

    def move(self, key: str, new_key: str) -> None:
        """Gives the metadata of a thing, and of all inside it, to another name; what was there is gone."""
        with self._lock:
            for old in [new_key, *self._inside(new_key)]:
                self._put(old, {})
            for old in self._inside(key):
                metadata = self._kept[old]
                self._put(old, {})
                self._put(new_key + old.removeprefix(key), metadata)

    def forget(self, key: str) -> None:
        """Forgets a thing that is gone, and all inside it."""
        with self._lock:
            for old in self._inside(key):
                self._put(old, {})

    def _inside(self, key: str) -> list[str]:
        return [known for known in self._kept if known == key or known.startswith(f"{key}/")]

    def _put(self, key: str, metadata: Mapping[str, str]) -> None:
        """Writes down what is new; nothing where nothing changes."""
        if not metadata and key not in self._kept:
            return
        append(self._file, _line(key, metadata))
        if metadata:
            self._kept[key] = metadata
        else:
            del self._kept[key]


def _line(key: str, metadata: Mapping[str, str]) -> str:
    return json.dumps([key, dict(metadata)]) + "\n"


def _read(file: Path) -> dict[str, Mapping[str, str]]:
    kept: dict[str, Mapping[str, str]] = {}
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else []:
        try:
            key, metadata = json.loads(line)
        except ValueError:  # the last line of a server that was killed
            continue
        kept[key] = metadata
    return {key: metadata for key, metadata in kept.items() if metadata}
