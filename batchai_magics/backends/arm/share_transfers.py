"""Uploads and downloads of files: in parallel, small files packed, large ones in resumable pieces."""

from __future__ import annotations

import hashlib
import queue
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import PurePosixPath
from typing import Protocol, TypeVar

from batchai_magics.backends.base import Copy, DefaultTransfers, ShareFile, Storage
from batchai_magics.backends.base.default_transfers import (
    BLOCK_BYTES,
    PartialDownloads,
    naming,
    transfer_error,
)
from batchai_magics.backends.service import api_errors, extension_bodies
from batchai_magics.backends.service.extension_bodies import PackedFile
from batchai_magics.errors import NotFoundError

_PART = ".batchai-part-"
_MARK_LENGTH = 16
_MAX_THREADS = 4
T = TypeVar("T")
Steps = Generator[int, None, T]
Counts = queue.SimpleQueue["int | None"]  # None: a task has ended


class PackedFiles(Protocol):
    """Transfers of many small files in one request."""

    def store(self, share: str, files: Mapping[str, bytes]) -> Sequence[ShareFile]:
        """Uploads files: all of them or none."""

    def fetch(self, share: str, paths: Sequence[str]) -> Mapping[str, PackedFile]:
        """Downloads files; those left out have to be downloaded one by one."""


class TransferStorage(Storage, Protocol):
    """A storage that transfers small files in a single request."""

    @property
    def packed(self) -> PackedFiles | None:
        """Many small files in one request, if the service can."""

    def upload_small(self, share: str, path: str, data: bytes) -> ShareFile:
        """Uploads a file of one piece."""

    def download_with_digest(self, share: str, path: str) -> tuple[bytes, str]:
        """A file's content, and its SHA-256 if the service has it."""


class PartStorage(Storage, Protocol):
    """A storage that makes parent folders."""

    def make_parents(self, share: str, path: str) -> None:
        """Makes the folders above a path."""


def send(storage: TransferStorage, share: str, copies: Sequence[Copy]) -> Steps[Sequence[ShareFile]]:
    """Uploads files in parallel; each appears on the share when it is complete and its digest matches."""
    sent = yield from run_parallel(
        [partial(_send_group, storage, share, group) for group in _groups(storage, copies)]
    )
    return [file for group in sent for file in group]


def fetch(storage: TransferStorage, share: str, copies: Sequence[Copy]) -> Steps[None]:
    """Downloads files in parallel; each appears when it is complete and its digest matches."""
    unfinished = PartialDownloads()
    groups = _groups(storage, copies)
    yield from run_parallel([partial(_fetch_group, storage, share, group, unfinished) for group in groups])


def _groups(storage: TransferStorage, copies: Sequence[Copy]) -> Iterator[list[Copy]]:
    """Groups of neighbouring small files, in order, if the storage packs files; else one file each."""
    group: list[Copy] = []
    room = 0
    for copy in copies:
        if group and (copy.size_bytes > room or len(group) == extension_bodies.MAX_FILES):
            yield group
            group = []
        room = (room if group else extension_bodies.MAX_BYTES if storage.packed else 0) - copy.size_bytes
        group.append(copy)
    if group:
        yield group


def run_parallel(tasks: Sequence[Callable[[], Steps[T]]]) -> Steps[list[T]]:
    """Runs tasks in a thread pool; yields the byte counts they yield and returns their results in order.

    The first failure stops the others at their next step, as does closing the generator.
    """
    counts: Counts = queue.SimpleQueue()
    stop = threading.Event()
    with ThreadPoolExecutor(_MAX_THREADS, thread_name_prefix="transfer") as pool:
        try:
            futures = [pool.submit(_run, task, counts, stop) for task in tasks]
            for future in futures:
                future.add_done_callback(partial(_end, counts, stop))
            left = len(futures)
            while left:
                count = counts.get()
                if count is None:
                    left -= 1
                else:
                    yield count
        finally:
            stop.set()
    return _results(futures)


def _run(task: Callable[[], Steps[T]], counts: Counts, stop: threading.Event) -> T | None:
    steps = task()
    while not stop.is_set():
        try:
            counts.put(next(steps))
        except StopIteration as end:
            result: T = end.value
            return result
    steps.close()
    return None


def _end(counts: Counts, stop: threading.Event, future: Future[T | None]) -> None:
    if future.exception():
        stop.set()
    counts.put(None)


def _results(futures: Sequence[Future[T | None]]) -> list[T]:
    """The results of all; raises the first error."""
    for future in futures:
        future.result()
    return [result for future in futures if (result := future.result()) is not None]


def _send_group(storage: TransferStorage, share: str, group: Sequence[Copy]) -> Steps[Sequence[ShareFile]]:
    if storage.packed and len(group) > 1:
        files = {copy.path: _read_file(copy) for copy in group}
        if sum(map(len, files.values())) <= extension_bodies.MAX_BYTES:  # else a file has grown
            sent = storage.packed.store(share, files)
            yield sum(copy.size_bytes for copy in group)
            return sent
    sent_alone = []
    for copy in group:
        sent_alone.append((yield from _send_one(storage, share, copy)))
    return sent_alone


def _send_one(storage: TransferStorage, share: str, copy: Copy) -> Steps[ShareFile]:
    if not 0 < copy.size_bytes <= BLOCK_BYTES:
        (file,) = yield from DefaultTransfers.send(storage, share, [copy])
        return file
    data = _read_file(copy)
    sent = storage.upload_small(share, copy.path, data)
    yield len(data)
    return sent


def _read_file(copy: Copy) -> bytes:
    with naming(copy, "read"):
        return copy.local_path.read_bytes()


def _fetch_group(
    storage: TransferStorage, share: str, group: Sequence[Copy], unfinished: PartialDownloads
) -> Steps[None]:
    found: Mapping[str, PackedFile] = {}
    if storage.packed and len(group) > 1:
        found = storage.packed.fetch(share, [copy.path for copy in group])
    for copy in group:
        file = found.get(copy.path)
        if file is None:
            yield from _fetch_one(storage, share, copy, unfinished)
        elif not file.is_intact:
            raise transfer_error(copy, is_changed=False)
        else:
            yield _save(copy, file.data, unfinished)


def _fetch_one(storage: TransferStorage, share: str, copy: Copy, unfinished: PartialDownloads) -> Steps[None]:
    if not 0 < copy.size_bytes <= BLOCK_BYTES:
        yield from DefaultTransfers.fetch(storage, share, [copy])
        return
    data, digest = storage.download_with_digest(share, copy.path)
    if digest not in ("", hashlib.sha256(data).hexdigest()):
        raise transfer_error(copy, is_changed=False)
    yield _save(copy, data, unfinished)


def _save(copy: Copy, data: bytes, unfinished: PartialDownloads) -> int:
    """Writes a complete file and moves it into place; returns its size in bytes."""
    with naming(copy, "written"):
        part = PartialDownloads.name(copy.local_path, copy.path)
        part.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(data)
        part.replace(copy.local_path)
        unfinished.drop(copy.local_path)
    return len(data)


class PartUploads:
    """Resumable uploads with plain Azure Files: pieces are appended to a part file beside the target."""

    def __init__(self, storage: PartStorage) -> None:
        self._storage = storage

    def begin(self, share: str, path: str, size_bytes: int) -> int:
        """Starts or resumes; returns the offset to send from."""
        part = _part(path)
        try:
            received = self._storage.show(share, part).size_bytes
        except NotFoundError:
            received = size_bytes + 1
        if received <= size_bytes:
            return received
        self._storage.make_parents(share, path)
        self._storage.resize(share, part, 0)
        return 0

    def write(self, share: str, path: str, offset: int, data: bytes) -> None:
        """Writes the next piece; the remains of an earlier attempt are truncated."""
        part = _part(path)
        self._storage.resize(share, part, offset + len(data))
        self._storage.change(share, part, offset, data)

    def finish(self, share: str, path: str, sha256: str) -> None:
        """Moves the file into place if its digest matches; reads it once more to compute that."""
        part = _part(path)
        if self._digest(share, part) != sha256:
            self._storage.delete(share, part)
            raise api_errors.damaged_upload(share, path)
        self._storage.rename(share, part, path)

    def upload(self, share: str, path: str, data: bytes) -> ShareFile:
        """Uploads a file of one piece."""
        self.begin(share, path, len(data))
        self.write(share, path, 0, data)
        self._storage.rename(share, _part(path), path)
        return self._storage.show(share, path)

    def _digest(self, share: str, path: str) -> str:
        digest, offset = hashlib.sha256(), 0
        while data := self._storage.read(share, path, offset, BLOCK_BYTES):
            digest.update(data)
            offset += len(data)
        return digest.hexdigest()


def is_part(path: str) -> bool:
    """Whether a path names a part file."""
    name = path.rpartition("/")[2]
    return name.startswith(_PART) and len(name) == len(_PART) + _MARK_LENGTH


def _part(path: str) -> str:
    """The part file of a path, derived from it so that another process can resume."""
    mark = hashlib.sha256(path.encode()).hexdigest()[:_MARK_LENGTH]
    return str(PurePosixPath(path).with_name(f"{_PART}{mark}"))
