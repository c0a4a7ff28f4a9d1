"""What lies on a share, as its service tells it, and what its errors mean. Pure."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any

from batchai_magics.backends.base import ShareFile
from batchai_magics.backends.service import api_errors
from batchai_magics.errors import ConflictError, NotFoundError, StorageError
from batchai_magics.models.execution import FileKind
from batchai_magics.models.times import parse_time

NO_SHARE = ("ShareNotFound", "ContainerNotFound")
_EXISTS = ("ShareAlreadyExists", "ContainerAlreadyExists", "ResourceAlreadyExists")


def checked(path: str) -> str:
    """A path as it is sent; StorageError for one that leads out of its share."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise StorageError(f"{path!r} leads out of the share", hint="Paths are relative and stay inside.")
    return "/".join(parts)


def listed(folder: str, item: Any) -> ShareFile:
    """An item of a list."""
    usual = FileKind.DIRECTORY if item.is_directory else FileKind.FILE
    path = f"{folder}/{item.name}".lstrip("/")
    return ShareFile(path, kind_of(item, usual), _size(item), _modified(item))


def shown(path: str, properties: Any, usual: FileKind) -> ShareFile:
    """A file or folder by its properties."""
    kind = kind_of(properties, usual)
    size = _size(properties) if kind is FileKind.FILE else 0
    return ShareFile(str(PurePosixPath(path)), kind, size, _modified(properties))


def kind_of(item: Any, usual: FileKind) -> FileKind:
    """What lies there: our own server says so where others have attributes of Windows."""
    words: Mapping[str, FileKind] = {kind.value: kind for kind in FileKind}
    return words.get(str(item.get("file_attributes") or ""), usual)


def check_file(file: ShareFile) -> None:
    """Raises NotFoundError for what has no bytes to be read."""
    if not file.is_file:
        name = file.path.rpartition("/")[2]
        raise NotFoundError(f"{name} is {file.kind.words}, not a file", code="FileNotFound")


@contextlib.contextmanager
def unless_there() -> Iterator[None]:
    """Lets it pass that what is made is there."""
    try:
        yield
    except ConflictError as error:
        if error.code not in _EXISTS:
            raise


@contextlib.contextmanager
def said_of(share: str, path: str, noun: str) -> Iterator[None]:
    """Puts into words what a header alone says of a path on a share; `noun` is what a share is called."""
    try:
        yield
    except NotFoundError as error:
        if error.code in NO_SHARE:
            raise api_errors.share_not_found(share, noun) from error
        if error.code == "FileNotFound":
            raise
        raise api_errors.not_on_share(share, path) from error


def _size(item: Any) -> int:
    return int(item.get("size") or 0)


def _modified(item: Any) -> datetime | None:
    """When it was written: as a text or a moment, by the version of the library."""
    moment = item.get("last_write_time") or item.get("last_modified")
    if isinstance(moment, str):
        return parse_time(moment)
    return moment if isinstance(moment, datetime) else None
