"""Metadata and content properties of shares, containers, files and blobs: headers, XML, and their store."""

from __future__ import annotations

import contextlib
import re
import secrets
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from xml.sax.saxutils import escape

from batchai_magics.server.api_call import ApiCall
from batchai_magics.server.key_journal import KeyJournal
from batchai_magics.server.storage.storage_resource import StorageApiError, StorageResource

_TYPE = "Content-Type"
_DEFAULT_TYPE = "application/octet-stream"


# Each property with the parameter of a SAS that overrides it.
_PROPERTIES = {
    _TYPE: "rsct",
    "Content-Encoding": "rsce",
    "Content-Language": "rscl",
    "Content-Disposition": "rscd",
    "Cache-Control": "rscc",
}
# Put Blob also takes these from the standard HTTP headers.
_BODY_PROPERTIES = (_TYPE, "Content-Encoding", "Content-Language", "Cache-Control")


def blob_properties(call: ApiCall) -> dict[str, str]:
    """The content properties that a request sets on a blob."""
    return _parse_headers(call, {name: f"x-ms-blob-{name.lower()}" for name in _PROPERTIES})


def put_blob_properties(call: ApiCall) -> dict[str, str]:
    """The content properties of Put Blob: from headers of the body, overridden by `x-ms-blob-` headers."""
    return {
        **_parse_headers(call, {name: name.lower() for name in _BODY_PROPERTIES}),
        **blob_properties(call),
    }


def file_properties(call: ApiCall) -> dict[str, str]:
    """The content properties that a request sets on a file."""
    return _parse_headers(call, {name: f"x-ms-{name.lower()}" for name in _PROPERTIES})


def property_headers(call: ApiCall, properties: Mapping[str, str]) -> dict[str, str]:
    """The content properties as response headers; a SAS may override them."""
    headers = {_TYPE: _DEFAULT_TYPE, **properties}
    for name, parameter in _PROPERTIES.items() if "sig" in call.query else ():
        if override := call.query.get(parameter, ""):
            headers[name] = _check_value(parameter, override)
    return headers


def property_elements(properties: Mapping[str, str]) -> str:
    """The content properties as XML elements."""
    headers = {_TYPE: _DEFAULT_TYPE, **properties}
    return "".join(f"<{name}>{escape(headers[name])}</{name}>" for name in _PROPERTIES if name in headers)


def _parse_headers(call: ApiCall, names: Mapping[str, str]) -> dict[str, str]:
    """The non-empty headers, by property name."""
    present = {name: header for name, header in names.items() if call.headers.get(header)}
    return {name: _check_value(header, call.headers[header]) for name, header in present.items()}


def _check_value(name: str, value: str) -> str:
    """A value that is valid in headers and XML."""
    if value.isprintable() and max(value) <= "\xff":
        return value
    raise StorageApiError(400, "InvalidHeaderValue", f"{name} must be printable text, not {value!r}.")


_HEADER = "x-ms-meta-"
_NAME = re.compile(r"[a-z_]\w*", re.ASCII)
_MAX_BYTES = 8 << 10  # names and values of one resource, as in Azure


def parse_metadata(call: ApiCall) -> dict[str, str]:
    """The metadata in a request, with names in lower case.

    Raises StorageApiError (400) for a name that is not a C# identifier, and above 8 KiB.
    """
    headers = [header for header in call.headers if header.startswith(_HEADER)]
    metadata = {header.removeprefix(_HEADER): call.headers[header].strip() for header in headers}
    for name in metadata:
        if not _NAME.fullmatch(name):
            code = "InvalidMetadata" if name else "EmptyMetadataKey"
            text = f"{name!r} is not a name of metadata: use letters, digits and _."
            raise StorageApiError(400, code, text)
    if sum(len(name) + len(value) for name, value in metadata.items()) > _MAX_BYTES:
        raise StorageApiError(400, "MetadataTooLarge", f"Metadata may have {_MAX_BYTES} bytes.")
    return metadata


def metadata_headers(metadata: Mapping[str, str]) -> dict[str, str]:
    """The metadata as response headers."""
    return {f"{_HEADER}{name}": value for name, value in metadata.items()}


def metadata_element(call: ApiCall, metadata: Mapping[str, str]) -> str:
    """The metadata as XML, if the request includes them."""
    if "metadata" not in call.query.get("include", "").split(","):
        return ""
    inner = "".join(f"<{name}>{escape(value)}</{name}>" for name, value in metadata.items())
    return f"<Metadata>{inner}</Metadata>"


@dataclass(frozen=True)
class StorageRecord:
    """What the server stores about a share, container, file or blob."""

    metadata: Mapping[str, str] = field(default_factory=dict)  # the client's names and values
    properties: Mapping[str, str] = field(default_factory=dict)  # content headers, by response header name
    revision: str = ""  # of a blob, a random value that changes with each write and makes its ETag unique
    # of a blob, when the record changed, in seconds since the epoch; its content may be newer
    changed: float = 0.0

    def revised(self, *, changed: float = 0.0) -> StorageRecord:
        """The record of a new version of a blob."""
        return replace(self, revision=secrets.token_hex(4), changed=changed)


class MetadataStore:
    """The records of all resources, by resource key."""

    def __init__(self, file: Path) -> None:
        names = {field.name for field in fields(StorageRecord)}
        self._journal = KeyJournal(file, lambda value: isinstance(value, dict) and value.keys() <= names)
        self._key_locks: dict[str, tuple[threading.Lock, int]] = {}

    @contextlib.contextmanager
    def exclusive(self, *keys: str) -> Iterator[None]:
        """Locks keys, so that conditions still hold when the change that depends on them is made."""
        with contextlib.ExitStack() as stack:
            for key in sorted(set(keys)):  # in a fixed order, to avoid deadlocks
                stack.enter_context(self._exclusive(key))
            yield

    @contextlib.contextmanager
    def _exclusive(self, key: str) -> Iterator[None]:
        with self._journal.lock:
            lock, users = self._key_locks.get(key, (threading.Lock(), 0))
            self._key_locks[key] = lock, users + 1
        try:
            with lock:
                yield
        finally:
            with self._journal.lock:
                lock, users = self._key_locks.pop(key)
                if users > 1:
                    self._key_locks[key] = lock, users - 1

    def record(self, key: str) -> StorageRecord:
        """The record of a resource."""
        return StorageRecord(**(self._journal.get(key) or {}))

    def set(self, key: str, record: StorageRecord) -> None:
        """Replaces a record."""
        values = {name: value for name, value in vars(record).items() if value}
        self._journal.put(key, values or None)

    def set_new(self, resource: StorageResource, record: StorageRecord) -> None:
        """Sets the record of new content; a blob gets a new version."""
        self.set(resource.key, record.revised() if resource.service == "blob" else record)

    def set_metadata(self, key: str, metadata: Mapping[str, str]) -> None:
        """Replaces the metadata of a record."""
        self.set(key, replace(self.record(key), metadata=metadata))

    def move(self, key: str, new_key: str) -> None:
        """Moves the record of a resource and everything inside it to another key, replacing its records."""
        with self._journal.lock:
            self.forget(new_key)
            for old, value in self._journal.subtree(key).items():
                self._journal.put(old, None)
                self._journal.put(new_key + old.removeprefix(key), value)

    def forget(self, key: str) -> None:
        """Removes the records of a deleted resource and everything inside it."""
        self._journal.forget(key)


EMPTY_RECORD = StorageRecord()
