"""Metadata and properties of shares and containers and what is in them, kept beside the files."""

from __future__ import annotations

import contextlib
import json
import re
import secrets
import threading
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from xml.sax.saxutils import escape

from batchai_magics.backends.service.private_files import append, write
from batchai_magics.server.call import Call
from batchai_magics.server.storage.errors import StorageRefusal
from batchai_magics.server.storage.request import Resource

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


@dataclass(frozen=True)
class Record:
    """What is kept of one thing.

    Attributes:
        metadata: A client's own names and values.
        properties: Headers of its content, by their names in an answer.
        revision: Of a blob, random: another one after each change, so that no two states have the same tag.
        changed: Of a blob, when these were changed last, as seconds since 1970; its content may be newer.
    """

    metadata: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    revision: str = ""
    changed: float = 0.0

    def revised(self, *, changed: float = 0.0) -> Record:
        """The record of another state of a blob."""
        return replace(self, revision=secrets.token_hex(4), changed=changed)


class Metadata:
    """What is kept of each thing, by its resource's key: a journal, which the next server writes anew."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._kept = _read(file)
        self._in_use: dict[str, tuple[threading.Lock, int]] = {}
        if file.exists():
            lines = (_line(key, record) for key, record in self._kept.items())
            write(file, "".join(lines))

    @contextlib.contextmanager
    def exclusive(self, *keys: str) -> Iterator[None]:
        """Lets one request at a time change things: a condition holds until what depends on it is done."""
        with contextlib.ExitStack() as stack:
            for key in sorted(set(keys)):  # in the same order for everybody: nobody waits for each other
                stack.enter_context(self._exclusive(key))
            yield

    @contextlib.contextmanager
    def _exclusive(self, key: str) -> Iterator[None]:
        with self._lock:
            lock, users = self._in_use.get(key, (threading.Lock(), 0))
            self._in_use[key] = lock, users + 1
        try:
            with lock:
                yield
        finally:
            with self._lock:
                lock, users = self._in_use.pop(key)
                if users > 1:
                    self._in_use[key] = lock, users - 1

    def record(self, key: str) -> Record:
        """What is kept of one thing."""
        return self._kept.get(key, NOTHING)

    def of(self, key: str) -> Mapping[str, str]:
        """The metadata of one thing; empty where there are none."""
        return self.record(key).metadata

    def keep(self, key: str, record: Record) -> None:
        """Puts a record in place of the one that there was."""
        with self._lock:
            if record != self.record(key):
                self._put(key, record)

    def keep_new(self, resource: Resource, record: Record) -> None:
        """Puts the record of new content in place of the old one's; of a blob, as another state."""
        self.keep(resource.key, record.revised() if resource.service == "blob" else record)

    def keep_metadata(self, key: str, metadata: Mapping[str, str]) -> None:
        """Puts metadata in place of those that there were; what else is kept stays."""
        self.keep(key, replace(self.record(key), metadata=metadata))

    def move(self, key: str, new_key: str) -> None:
        """Gives the record of a thing, and of all inside it, to another name; what was there is gone."""
        with self._lock:
            for old in [new_key, *self._inside(new_key)]:
                self._put(old, NOTHING)
            for old in self._inside(key):
                record = self._kept[old]
                self._put(old, NOTHING)
                self._put(new_key + old.removeprefix(key), record)

    def forget(self, key: str) -> None:
        """Forgets a thing that is gone, and all inside it."""
        with self._lock:
            for old in self._inside(key):
                self._put(old, NOTHING)

    def _inside(self, key: str) -> list[str]:
        return [known for known in self._kept if known == key or known.startswith(f"{key}/")]

    def _put(self, key: str, record: Record) -> None:
        """Writes down what is new; nothing where nothing changes."""
        if record == NOTHING and key not in self._kept:
            return
        append(self._file, _line(key, record))
        if record == NOTHING:
            del self._kept[key]
        else:
            self._kept[key] = record


def _line(key: str, record: Record) -> str:
    """A line of the journal; what is not the default stands behind the metadata."""
    more = {
        name: value
        for name, value in asdict(record).items()
        if name != "metadata" and value != getattr(NOTHING, name)
    }
    return json.dumps([key, dict(record.metadata), *([more] if more else [])]) + "\n"


def _read(file: Path) -> dict[str, Record]:
    kept: dict[str, Record] = {}
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else []:
        try:
            key, metadata, *more = json.loads(line)
            kept[key] = Record(metadata, **(more[0] if more else {}))
        except (ValueError, TypeError):  # the last line of a server that was killed, or one of a newer server
            continue
    return {key: record for key, record in kept.items() if record != NOTHING}


NOTHING = Record()
