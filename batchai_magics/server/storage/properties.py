"""Properties of content that clients set and get back: its type, encoding, language and so on. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from xml.sax.saxutils import escape

from batchai_magics.server.call import Call
from batchai_magics.server.storage.errors import StorageRefusal

_TYPE = "Content-Type"
_DEFAULT_TYPE = "application/octet-stream"


@dataclass(frozen=True)
class _Spelling:
    """How requests say one property: for blobs, for files, and in a shared access signature."""

    blob: str
    file: str
    signature: str


_SPELLINGS: Mapping[str, _Spelling] = {
    _TYPE: _Spelling("x-ms-blob-content-type", "x-ms-content-type", "rsct"),
    "Content-Encoding": _Spelling("x-ms-blob-content-encoding", "x-ms-content-encoding", "rsce"),
    "Content-Language": _Spelling("x-ms-blob-content-language", "x-ms-content-language", "rscl"),
    "Content-Disposition": _Spelling("x-ms-blob-content-disposition", "x-ms-content-disposition", "rscd"),
    "Cache-Control": _Spelling("x-ms-blob-cache-control", "x-ms-cache-control", "rscc"),
}
# Of a blob that is put whole, HTTP's own headers say these as well.
_OF_A_BODY = (_TYPE, "Content-Encoding", "Content-Language", "Cache-Control")


def of_blob(call: Call) -> dict[str, str]:
    """The properties that a request sets of a blob."""
    return _said(call, {name: spelling.blob for name, spelling in _SPELLINGS.items()})


def of_put_blob(call: Call) -> dict[str, str]:
    """Those of a blob that is put whole: the headers of its body are the blob's, unless it says others."""
    return {**_said(call, {name: name.lower() for name in _OF_A_BODY}), **of_blob(call)}


def of_file(call: Call) -> dict[str, str]:
    """The properties that a request sets of a file."""
    return _said(call, {name: spelling.file for name, spelling in _SPELLINGS.items()})


def headers(call: Call, properties: Mapping[str, str]) -> dict[str, str]:
    """The properties as the answer to a read has them; the signature of an address may override them."""
    told = {_TYPE: _DEFAULT_TYPE, **properties}
    for name, spelling in _SPELLINGS.items():
        override = call.query.get(spelling.signature, "") if "sig" in call.query else ""
        if override:
            told[name] = _checked(spelling.signature, override)
    return told


def elements(properties: Mapping[str, str]) -> str:
    """The properties as a list of blobs has them."""
    told = {_TYPE: _DEFAULT_TYPE, **properties}
    return "".join(f"<{name}>{escape(told[name])}</{name}>" for name in _SPELLINGS if name in told)


def _said(call: Call, names: Mapping[str, str]) -> dict[str, str]:
    """What the headers of a request say, by the names of properties; nothing for one that is empty."""
    said = {name: header for name, header in names.items() if call.headers.get(header)}
    return {name: _checked(header, call.headers[header]) for name, header in said.items()}


def _checked(name: str, value: str) -> str:
    """A value that can stand in a header and in a list."""
    if value.isprintable() and max(value) <= "\xff":
        return value
    raise StorageRefusal(400, "InvalidHeaderValue", f"{name} must be printable text, not {value!r}.")
