"""Shares and containers as folders below `$BATCHAI_HOME`."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from batchai_magics.backends.base import ShareFile
from batchai_magics.backends.local.folders.outputs import inside, is_inside
from batchai_magics.backends.service import refusals
from batchai_magics.config import DEFAULT_ACCOUNT
from batchai_magics.errors import StorageError
from batchai_magics.models.ids import check_share_name

_UNFINISHED = ".part-"  # what the name of a file on its way begins with


class LocalStorage:
    """The shares, or the blob containers, of this machine: folders below `root`.

    A share is `name` (of the account `local`) or `account/name`.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def make(self, share: str) -> None:
        """Makes a share unless it is there."""
        with _translated(share):
            self._folder(share).mkdir(parents=True, exist_ok=True)

    def shares(self) -> list[str]:
        """The names of all shares, sorted."""
        accounts = [path for path in self._root.iterdir() if path.is_dir()] if self._root.exists() else []
        names = [_share_name(account, share) for account in accounts for share in account.iterdir()]
        return sorted(names)

    def upload(self, share: str, files: Mapping[str, bytes]) -> None:
        """Writes files; each appears whole or not at all."""
        folder = self._folder(share)
        contents = {inside(folder, path): content for path, content in files.items()}
        for file, content in contents.items():
            with _translated(share):
                _write(file, content)

    def list(self, share: str, path: str = "") -> list[ShareFile]:
        """One level of a folder, sorted by name."""
        folder = self._existing(share)
        level = inside(folder, path)
        if not level.is_dir():
            raise refusals.no_folder_of_share(share, path)
        items = [item for item in sorted(level.iterdir()) if not item.name.startswith(_UNFINISHED)]
        return [_entry(item, path) for item in items if is_inside(folder, item)]

    def show(self, share: str, path: str) -> ShareFile:
        """A file or folder as it is now."""
        item = inside(self._existing(share), path)
        if item.name.startswith(_UNFINISHED) or not item.exists():
            raise refusals.not_on_share(share, path)
        return replace(_entry(item, ""), path=str(PurePosixPath(path)))  # a link keeps its name

    def download(self, share: str, path: str) -> bytes:
        """A file's content."""
        return self._file(share, path).read_bytes()

    def delete(self, share: str, path: str) -> None:
        """Deletes a file, or a folder with all in it."""
        folder = self._existing(share)
        item = inside(folder, path)
        if item == folder.resolve() or not item.exists():
            raise refusals.not_on_share(share, path)
        shutil.rmtree(item) if item.is_dir() else item.unlink()

    def remove(self, share: str) -> None:
        """Deletes a share with all in it."""
        shutil.rmtree(self._existing(share))

    def read(self, share: str, path: str, offset: int, limit: int) -> bytes:
        """At most `limit` bytes of a file from `offset`; empty at its end."""
        with self._file(share, path).open("rb") as file:
            file.seek(offset)
            return file.read(limit)

    def digest(self, share: str, path: str) -> str:
        """The SHA-256 (hex) of a file as it lies there."""
        with self._file(share, path).open("rb") as file:
            return _sha256(file)

    def begin(self, share: str, path: str, size_bytes: int) -> int:
        """Starts to upload a file in pieces, or goes on with it: gives the offset to send from."""
        part = self._part(share, path)
        with _translated(share):
            part.parent.mkdir(parents=True, exist_ok=True)
            received = part.stat().st_size if part.exists() else 0
            if received > size_bytes:  # of another, larger file
                part.unlink()
        return received if received <= size_bytes else 0

    def write(self, share: str, path: str, offset: int, data: bytes) -> None:
        """The next piece of a file that `begin` started."""
        with _translated(share), self._part(share, path).open("ab") as file:
            file.truncate(offset)
            file.write(data)

    def finish(self, share: str, path: str, sha256: str) -> None:
        """Puts the uploaded file in its place if its digest is right."""
        part = self._part(share, path)
        with _translated(share), part.open("ab+") as file:
            os.fsync(file.fileno())
            file.seek(0)
            digest = _sha256(file)
        if digest != sha256:
            part.unlink()
            raise refusals.damaged_upload(share, path)
        part.replace(inside(self._existing(share), path))

    def _part(self, share: str, path: str) -> Path:
        file = inside(self._existing(share), path)
        return file.with_name(f"{_UNFINISHED}{file.name}")

    def _file(self, share: str, path: str) -> Path:
        file = inside(self._existing(share), path)
        if not file.is_file():
            raise refusals.no_file_of_share(share, path)
        return file

    def _folder(self, share: str) -> Path:
        account, _, name = check_share_name(share).rpartition("/")
        return self._root / (account or DEFAULT_ACCOUNT) / name

    def _existing(self, share: str) -> Path:
        folder = self._folder(share)
        if not folder.is_dir():
            raise refusals.share_not_found(share)
        return folder


def _share_name(account: Path, share: Path) -> str:
    return share.name if account.name == DEFAULT_ACCOUNT else f"{account.name}/{share.name}"


def _entry(item: Path, path: str) -> ShareFile:
    stat, is_directory = item.stat(), item.is_dir()
    name = f"{path.strip('/')}/{item.name}".lstrip("/")
    modified = datetime.fromtimestamp(stat.st_mtime, timezone.utc)
    return ShareFile(name, is_directory, 0 if is_directory else stat.st_size, modified)


def _sha256(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    while data := file.read(1 << 20):
        digest.update(data)
    return digest.hexdigest()


def _write(target: Path, content: bytes) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{_UNFINISHED}{uuid.uuid4().hex}")
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


@contextlib.contextmanager
def _translated(share: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"share {share!r} cannot be written: {error.strerror}", code="ShareUnavailable"
        ) from error
