"""Metadata and content properties of shares, containers, files and blobs: headers, XML, and their journal."""

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
from batchai_magics.server.api_call import ApiCall
from batchai_magics.server.storage.storage_errors import StorageApiError
from batchai_magics.server.storage.storage_resource import StorageResource

_TYPE = "Content-Type"
_DEFAULT_TYPE = "application/octet-stream"


@dataclass(frozen=True)
class _PropertyHeaders:
    """How requests say one property: for blobs, for files, and in a shared access signature."""

    blob: str
    file: str
    signature: str


_PROPERTIES: Mapping[str, _PropertyHeaders] = {
    _TYPE: _PropertyHeaders("x-ms-blob-content-type", "x-ms-content-type", "rsct"),
    "Content-Encoding": _PropertyHeaders("x-ms-blob-content-encoding", "x-ms-content-encoding", "rsce"),
    "Content-Language": _PropertyHeaders("x-ms-blob-content-language", "x-ms-content-language", "rscl"),
    "Content-Disposition": _PropertyHeaders(
        "x-ms-blob-content-disposition", "x-ms-content-disposition", "rscd"
    ),
    "Cache-Control": _PropertyHeaders("x-ms-blob-cache-control", "x-ms-cache-control", "rscc"),
}
# Of a blob that is put whole, HTTP's own headers say these as well.
_BODY_PROPERTIES = (_TYPE, "Content-Encoding", "Content-Language", "Cache-Control")


def blob_properties(call: ApiCall) -> dict[str, str]:
    """The properties that a request sets of a blob."""
    return _parse_headers(call, {name: spelling.blob for name, spelling in _PROPERTIES.items()})


def put_blob_properties(call: ApiCall) -> dict[str, str]:
    """Those of a blob that is put whole: the headers of its body are the blob's, unless it says others."""
    return {
        **_parse_headers(call, {name: name.lower() for name in _BODY_PROPERTIES}),
        **blob_properties(call),
    }


def file_properties(call: ApiCall) -> dict[str, str]:
    """The properties that a request sets of a file."""
    return _parse_headers(call, {name: spelling.file for name, spelling in _PROPERTIES.items()})


def property_headers(call: ApiCall, properties: Mapping[str, str]) -> dict[str, str]:
    """The properties as the answer to a read has them; the signature of an address may override them."""
    told = {_TYPE: _DEFAULT_TYPE, **properties}
    for name, spelling in _PROPERTIES.items():
        override = call.query.get(spelling.signature, "") if "sig" in call.query else ""
        if override:
            told[name] = _check_value(spelling.signature, override)
    return told


def property_elements(properties: Mapping[str, str]) -> str:
    """The properties as a list of blobs has them."""
    told = {_TYPE: _DEFAULT_TYPE, **properties}
    return "".join(f"<{name}>{escape(told[name])}</{name}>" for name in _PROPERTIES if name in told)


def _parse_headers(call: ApiCall, names: Mapping[str, str]) -> dict[str, str]:
    """What the headers of a request say, by the names of properties; nothing for one that is empty."""
    said = {name: header for name, header in names.items() if call.headers.get(header)}
    return {name: _check_value(header, call.headers[header]) for name, header in said.items()}


def _check_value(name: str, value: str) -> str:
    """A value that can stand in a header and in a list."""
    if value.isprintable() and max(value) <= "\xff":
        return value
    raise StorageApiError(400, "InvalidHeaderValue", f"{name} must be printable text, not {value!r}.")


_HEADER = "x-ms-meta-"
_NAME = re.compile(r"[a-z_]\w*", re.ASCII)
_MAX_BYTES = 8 << 10  # names and values of one thing, as Azure has it


def parse_metadata(call: ApiCall) -> dict[str, str]:
    """The metadata that a request brings; their names in small letters, as HTTP passes them on.

    Raises StorageRefusal for a name that is none of C#'s, and for more than 8 KiB.
    """
    headers = [header for header in call.headers if header.startswith(_HEADER)]
    found = {header.removeprefix(_HEADER): call.headers[header].strip() for header in headers}
    for name in found:
        _check_name(name)
    if sum(len(name) + len(value) for name, value in found.items()) > _MAX_BYTES:
        raise StorageApiError(400, "MetadataTooLarge", f"Metadata may have {_MAX_BYTES} bytes.")
    return found


def metadata_headers(metadata: Mapping[str, str]) -> dict[str, str]:
    """The metadata as an answer tells them."""
    return {f"{_HEADER}{name}": value for name, value in metadata.items()}


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        code = "InvalidMetadata" if name else "EmptyMetadataKey"
        raise StorageApiError(400, code, f"{name!r} is no name of metadata: use letters, digits and _.")


def metadata_element(call: ApiCall, metadata: Mapping[str, str]) -> str:
    """The metadata of something in a list as XML, where the request wants them."""
    if "metadata" not in call.query.get("include", "").split(","):
        return ""
    inner = "".join(f"<{name}>{escape(value)}</{name}>" for name, value in metadata.items())
    return f"<Metadata>{inner}</Metadata>"


@dataclass(frozen=True)
class StorageRecord:
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

    def revised(self, *, changed: float = 0.0) -> StorageRecord:
        """The record of another state of a blob."""
        return replace(self, revision=secrets.token_hex(4), changed=changed)


class MetadataStore:
    """What is kept of each thing, by its resource's key: a journal, which the next server writes anew."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._kept = _read_journal(file)
        self._in_use: dict[str, tuple[threading.Lock, int]] = {}
        if file.exists():
            lines = (_journal_line(key, record) for key, record in self._kept.items())
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

    def record(self, key: str) -> StorageRecord:
        """What is kept of one thing."""
        return self._kept.get(key, EMPTY_RECORD)

    def metadata_of(self, key: str) -> Mapping[str, str]:
        """The metadata of one thing; empty where there are none."""
        return self.record(key).metadata

    def set(self, key: str, record: StorageRecord) -> None:
        """Puts a record in place of the one that there was."""
        with self._lock:
            if record != self.record(key):
                self._put(key, record)

    def set_new(self, resource: StorageResource, record: StorageRecord) -> None:
        """Puts the record of new content in place of the old one's; of a blob, as another state."""
        self.set(resource.key, record.revised() if resource.service == "blob" else record)

    def set_metadata(self, key: str, metadata: Mapping[str, str]) -> None:
        """Puts metadata in place of those that there were; what else is kept stays."""
        self.set(key, replace(self.record(key), metadata=metadata))

    def move(self, key: str, new_key: str) -> None:
        """Gives the record of a thing, and of all inside it, to another name; what was there is gone."""
        with self._lock:
            for old in [new_key, *self._keys_below(new_key)]:
                self._put(old, EMPTY_RECORD)
            for old in self._keys_below(key):
                record = self._kept[old]
                self._put(old, EMPTY_RECORD)
                self._put(new_key + old.removeprefix(key), record)

    def forget(self, key: str) -> None:
        """Forgets a thing that is gone, and all inside it."""
        with self._lock:
            for old in self._keys_below(key):
                self._put(old, EMPTY_RECORD)

    def _keys_below(self, key: str) -> list[str]:
        return [known for known in self._kept if known == key or known.startswith(f"{key}/")]

    def _put(self, key: str, record: StorageRecord) -> None:
        """Writes down what is new; nothing where nothing changes."""
        if record == EMPTY_RECORD and key not in self._kept:
            return
        append(self._file, _journal_line(key, record))
        if record == EMPTY_RECORD:
            del self._kept[key]
        else:
            self._kept[key] = record


def _journal_line(key: str, record: StorageRecord) -> str:
    """A line of the journal; what is not the default stands behind the metadata."""
    more = {
        name: value
        for name, value in asdict(record).items()
        if name != "metadata" and value != getattr(EMPTY_RECORD, name)
    }
    return json.dumps([key, dict(record.metadata), *([more] if more else [])]) + "\n"


def _read_journal(file: Path) -> dict[str, StorageRecord]:
    kept: dict[str, StorageRecord] = {}
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else []:
        try:
            key, metadata, *more = json.loads(line)
            kept[key] = StorageRecord(metadata, **(more[0] if more else {}))
        except (ValueError, TypeError):  # the last line of a server that was killed, or one of a newer server
            continue
    return {key: record for key, record in kept.items() if record != EMPTY_RECORD}


EMPTY_RECORD = StorageRecord()
