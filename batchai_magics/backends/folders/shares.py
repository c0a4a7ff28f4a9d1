"""Shares and containers as folders of a home, their files, and the deletion of abandoned uploads."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import math
import os
import shutil
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from batchai_magics.backends.base import Copy, ShareFile, api_errors
from batchai_magics.backends.base.storage import STALE_S, Storage
from batchai_magics.backends.folders import copying, entries, private_files
from batchai_magics.backends.folders.copying import CopyPaths
from batchai_magics.backends.folders.entries import Entry, open_regular, read_slice, resolve_inside
from batchai_magics.backends.folders.private_files import is_remote
from batchai_magics.config import DEFAULT_ACCOUNT
from batchai_magics.errors import FileChangedError, SpecError
from batchai_magics.models.file_names import name_of
from batchai_magics.models.job_execution import FileKind
from batchai_magics.models.resource_ids import check_share_name
from batchai_magics.untrusted_files import open_file

Users = Callable[[Sequence[Path]], Sequence[str]]  # the names of the jobs that use some folders

_EVERY_S = 3600.0
BLOCK_BYTES = 4 << 20
_PUNCH_HOLE_KEEP_SIZE = 0x02 | 0x01  # flags of Linux's fallocate


class FolderStorage:
    """Shares or blob containers as folders below `root`.

    A share is `name` (of the account `local`) or `account/name`; `noun` names it in messages. Incomplete
    uploads are below `unfinished`, for a day. `users` gives the names of the jobs that use a folder.
    """

    def __init__(
        self, root: Path, unfinished: Path, noun: str = "share", users: Users = lambda folders: ()
    ) -> None:
        self._root, self._unfinished, self._noun, self._users = root, unfinished, noun, users
        self._stale_due_s = -math.inf  # on the monotonic clock

    def make(self, share: str) -> None:
        """Creates a share unless it exists."""
        with _translated_errors(share):
            private_files.make_folder(self._folder(share))

    def shares(self) -> list[str]:
        """The names of all shares, sorted."""
        accounts = [path for path in self._root.iterdir() if path.is_dir()] if self._root.exists() else []
        names = [f"{account.name}/{share.name}" for account in accounts for share in account.iterdir()]
        return sorted(name.removeprefix(f"{DEFAULT_ACCOUNT}/") for name in names)

    def has(self, share: str) -> bool:
        """Whether there is a share of that name; False for an invalid one."""
        try:
            return self._folder(share).is_dir()
        except SpecError:
            return False

    def upload(self, share: str, files: Mapping[str, bytes]) -> None:
        """Writes files, each atomically; here, only those that the share does not have already."""
        self._drop_stale_parts()
        folder = self._folder(share)
        is_elsewhere: bool = is_remote(folder)
        if is_elsewhere:
            contents = {resolve_inside(folder, path): content for path, content in files.items()}
            with _translated_errors(share):
                for file, content in contents.items():
                    assert is_remote(file), "both are on one machine"
                    file.write_atomic(content, private_files.FILE, sync=True)
            return
        targets = copying.Targets(folder)
        by_target = {targets.of(path): content for path, content in files.items()}
        with _translated_errors(share):
            new = {target: content for target, content in by_target.items() if not _has(target, content)}
            copying.write_group(self._parts(share), new)

    def list(self, share: str, path: str = "") -> list[ShareFile]:
        """Lists a folder, sorted by name."""
        folder = self._existing_folder(share)
        target = resolve_inside(folder, path)
        if not target.is_dir():
            raise api_errors.no_folder_of_share(share, path)
        prefix = path.strip("/")
        return [
            ShareFile(f"{prefix}/{item.name}".lstrip("/"), item.kind, item.size_bytes, item.modified)
            for item in entries.scan(folder, target)
        ]

    def show(self, share: str, path: str) -> ShareFile:
        """The current status of a file or folder."""
        folder = self._existing_folder(share)
        item = resolve_inside(folder, path)  # raises for a link that is outside the share
        if item != entries.join(folder, path):  # there are links: the last one is shown itself
            item = entries.unresolved(folder, path)
        try:
            entry = Entry.at(folder, item)
            return ShareFile(str(PurePosixPath(path)), entry.kind, entry.size_bytes, entry.modified)
        except OSError as error:
            raise api_errors.not_on_share(share, path) from error

    def download(self, share: str, path: str) -> bytes:
        """The content of a file; FileChangedError if it is replaced meanwhile."""
        with self._file_to_read(share, path) as file:
            if not is_remote(file):
                with open_regular(file) as stream:
                    return stream.read()
            first = read_slice(file, 0, BLOCK_BYTES)
            blocks, at = [first.data], len(first.data)
            while at < first.size:
                block = read_slice(file, at, BLOCK_BYTES)
                if block.identity != first.identity or not block.data:
                    raise FileChangedError(f"{file.name} changed while it was read", hint="Try it again.")
                blocks.append(block.data)
                at += len(block.data)
            return b"".join(blocks)

    def delete(self, share: str, path: str) -> None:
        """Deletes a file, or a folder with its contents."""
        folder = self._existing_folder(share)
        item = entries.unresolved(folder, path)
        if item == folder or not (item.is_symlink() or item.exists()):
            raise api_errors.not_on_share(share, path)
        _remove(item)

    def remove(self, share: str) -> None:
        """Deletes a share with its contents; ConflictError while a job uses it."""
        folder = self._existing_folder(share)
        if names := self._users([folder]):
            raise api_errors.share_in_use(share, names)
        _remove(folder)
        private_files.remove_folder(self._parts(share))

    def read(self, share: str, path: str, offset: int, limit: int) -> bytes:
        """At most `limit` bytes of a file from `offset`; empty at its end."""
        with self._file_to_read(share, path) as file:
            return entries.read_slice(file, offset, limit).data

    def digest(self, share: str, path: str) -> str:
        """The SHA-256 (hex) of a file."""
        with self._file_to_read(share, path) as file:
            if is_remote(file):
                read_slice(file, 0, 1)  # raises unless it is a regular file
                return file.digest()
            with open_regular(file) as stream:
                return _sha256(stream)

    def make_folder(self, share: str, path: str) -> None:
        """Creates a folder unless it exists."""
        folder = self._with_parent(share, path)
        with _translated_errors(share):
            folder.mkdir(exist_ok=True)

    def resize(self, share: str, path: str, size_bytes: int) -> None:
        """Truncates or extends a file; creates it if necessary."""
        file = self._with_parent(share, path)
        with _translated_errors(share):
            if is_remote(file):
                return file.write_at(b"", size_bytes, cut=True, mode=copying.DEFAULT_MODE)
            with open(file, "ab", opener=_without_waiting) as stream:
                disk = os.fstatvfs(stream.fileno())
                if size_bytes > os.fstat(stream.fileno()).st_size + disk.f_bavail * disk.f_frsize:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                stream.truncate(size_bytes)

    def change(self, share: str, path: str, offset: int, data: bytes) -> None:
        """Writes into an existing file."""
        file = self._file(share, path)
        with _translated_errors(share):
            _change(file, offset, data)

    def clear(self, share: str, path: str, offset: int, size_bytes: int) -> None:
        """Fills a range of an existing file with zeros, as a hole where possible."""
        file = self._file(share, path)
        with _translated_errors(share):
            if not is_remote(file):
                with file.open("r+b") as stream:
                    if _punch_hole(stream.fileno(), offset, size_bytes):
                        return
            for start in range(offset, offset + size_bytes, BLOCK_BYTES):
                _change(file, start, bytes(min(BLOCK_BYTES, offset + size_bytes - start)))

    def rename(self, share: str, path: str, new_path: str) -> None:
        """Renames a file or folder, replacing an existing file."""
        item, target = self._with_parent(share, path), self._with_parent(share, new_path)
        if not item.exists():
            raise api_errors.not_on_share(share, path)
        with _translated_errors(share):
            item.replace(target)

    def begin(self, share: str, path: str, size_bytes: int) -> int:
        """Starts or resumes the upload of a file; returns the offset to send from."""
        self._drop_stale_parts()
        target = resolve_inside(self._existing_folder(share), path)
        part = self._part(share, target)
        with _translated_errors(share):
            private_files.make_folder(target.parent)
            private_files.make_folder(part.parent)
            received = part.stat().st_size if part.exists() else 0
            if received > size_bytes:  # left by another, larger file
                part.unlink()
        return received if received <= size_bytes else 0

    def write(self, share: str, path: str, offset: int, data: bytes) -> None:
        """Writes the next block of a file started by `begin`."""
        part = self._part(share, resolve_inside(self._existing_folder(share), path))
        with _translated_errors(share):
            if is_remote(part):
                return part.write_at(data, offset, cut=True, mode=private_files.FILE)
            with open(part, "ab", opener=private_files.opener) as file:
                file.truncate(offset)
                file.write(data)

    def finish(self, share: str, path: str, sha256: str) -> None:
        """Publishes the uploaded file if its digest is correct."""
        target = resolve_inside(self._existing_folder(share), path)
        part = self._part(share, target)
        with _translated_errors(share):
            if is_remote(part):
                part.touch(mode=private_files.FILE)
                digest = part.digest(sync=True)
            else:
                # of an empty file, no part was written
                with open(part, "ab+", opener=private_files.opener) as file:
                    os.fsync(file.fileno())
                    file.seek(0)
                    digest = _sha256(file)
        if digest != sha256:
            part.unlink()
            raise api_errors.damaged_upload(share, path)
        with _translated_errors(share):
            copying.move(str(part), str(target))

    def send(self, share: str, copies: Sequence[Copy]) -> Generator[int, None, Sequence[ShareFile]]:
        """Uploads files: read once, verified, published in groups."""
        self._drop_stale_parts()
        folder = self._existing_folder(share)
        if is_remote(folder):
            return (yield from Storage.send(self, share, copies))
        targets, parts = copying.Targets(folder), self._parts(share)
        private_files.make_folder(parts)
        sent: list[ShareFile] = []
        for group in copying.groups(copies):
            routes = []
            for copy in group:
                target = targets.of(copy.path)
                part = f"{parts}/{_part_name(target)}"
                routes.append(CopyPaths(copy, str(copy.local_path), part, target))
            with _translated_errors(share):
                sent += yield from copying.upload_group(routes)
        return sent

    def fetch(self, share: str, copies: Sequence[Copy]) -> Iterator[int]:
        """Downloads files: read once, verified."""
        folder = self._existing_folder(share)
        if is_remote(folder):
            return Storage.fetch(self, share, copies)
        return copying.download_all(folder, share, copies)

    def _drop_stale_parts(self) -> None:
        """Deletes incomplete uploads that are a day old; does nothing if called again within an hour."""
        now_s = time.monotonic()
        if now_s >= self._stale_due_s:
            self._stale_due_s = now_s + _EVERY_S
            before = datetime.now(timezone.utc) - timedelta(seconds=STALE_S)
            _drop_below(self._unfinished, self._unfinished, before)

    def _part(self, share: str, target: Path) -> Path:
        return self._parts(share) / _part_name(str(target))

    def _parts(self, share: str) -> Path:
        """The folder of temporary files, outside the share so that they are not listed in it."""
        return self._unfinished / self._folder(share).relative_to(self._root)

    @contextlib.contextmanager
    def _file_to_read(self, share: str, path: str) -> Iterator[Path]:
        """The path of a file that is about to be opened."""
        try:
            yield resolve_inside(self._existing_folder(share), path)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise api_errors.no_file_of_share(share, path) from error

    def _with_parent(self, share: str, path: str) -> Path:
        """The path of a file or folder whose parent exists."""
        folder = self._existing_folder(share)
        item = resolve_inside(folder, path)
        if not item.parent.is_dir() or item == folder:
            raise api_errors.no_folder_of_share(share, str(PurePosixPath(path).parent))
        return item

    def _file(self, share: str, path: str) -> Path:
        file = resolve_inside(self._existing_folder(share), path)
        if not file.is_file():
            raise api_errors.no_file_of_share(share, path)
        return file

    def _folder(self, share: str) -> Path:
        account, _, name = check_share_name(share).rpartition("/")
        return self._root / (account or DEFAULT_ACCOUNT) / name

    def _existing_folder(self, share: str) -> Path:
        folder = self._folder(share)
        if not folder.is_dir():
            raise api_errors.share_not_found(share, self._noun)
        return folder


def _without_waiting(path: str, flags: int) -> int:
    """For `open(…, opener=…)`: a pipe that nothing reads is an error, rather than waited for."""
    return os.open(path, flags | os.O_NONBLOCK, copying.DEFAULT_MODE)


def _has(file: str, content: bytes) -> bool:
    """Whether a file has this content: a cell that is submitted again sends what is there."""
    with contextlib.suppress(OSError), open_file(file) as stream:
        return os.fstat(stream.fileno()).st_size == len(content) and stream.read() == content
    return False


def _drop_below(root: Path, folder: Path, before: datetime) -> None:
    for entry in entries.scan(root, folder):
        path = folder / name_of(entry.name)
        if entry.kind is FileKind.DIRECTORY:
            _drop_below(root, path, before)
        elif entry.modified < before:
            with contextlib.suppress(OSError):  # another process deleted it, or it is another user's
                path.unlink()


def _part_name(target: str) -> str:
    """The name of a temporary file."""
    return hashlib.sha256(target.encode(errors="surrogateescape")).hexdigest()[:32]


@contextlib.contextmanager
def _translated_errors(share: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise api_errors.share_not_written(share, error) from error


def _punch_hole(descriptor: int, offset: int, size_bytes: int) -> bool:
    """Punches a hole; False where that is not supported."""
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None)
    fallocate = getattr(libc, "fallocate64", None) or libc.fallocate  # musl has only this one (64-bit)
    range_args = (ctypes.c_int64(offset), ctypes.c_int64(size_bytes))
    return bool(fallocate(descriptor, _PUNCH_HOLE_KEEP_SIZE, *range_args) == 0)


def _change(file: Path, offset: int, data: bytes) -> None:
    if is_remote(file):
        return file.write_at(data, offset)
    with file.open("r+b") as stream:
        stream.seek(offset)
        stream.write(data)


def _remove(item: Path) -> None:
    """Deletes a file, a link, or a folder with its contents."""
    if is_remote(item):
        item.rmtree() if item.is_dir() else item.unlink()
        return
    shutil.rmtree(item) if item.is_dir() and not item.is_symlink() else item.unlink()


def _sha256(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    while data := file.read(1 << 20):
        digest.update(data)
    return digest.hexdigest()
