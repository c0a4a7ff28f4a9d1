"""Files between this machine and a share: several at once, small ones in a request or two."""

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
from batchai_magics.backends.base.default_transfers import PIECE_BYTES, Unfinished, naming, spoiled
from batchai_magics.backends.service import api_errors
from batchai_magics.backends.service.extensions import file_packs
from batchai_magics.backends.service.extensions.file_packs import Packed
from batchai_magics.errors import NotFoundError

_PART = ".batchai-part-"
_MARK_LENGTH = 16
_AT_ONCE = 4
T = TypeVar("T")
Steps = Generator[int, None, T]
Counts = queue.SimpleQueue["int | None"]  # None: a task is over


class PackedFiles(Protocol):
    """Transfers of many small files in one request."""

    def store(self, share: str, files: Mapping[str, bytes]) -> Sequence[ShareFile]:
        """Uploads files: all of them or none."""

    def fetch(self, share: str, paths: Sequence[str]) -> Mapping[str, Packed]:
        """Downloads files; those left out have to be downloaded one by one."""


class TransferStorage(Storage, Protocol):
    """A storage that transfers small files in a single request."""

    @property
    def packed(self) -> PackedFiles | None:
        """Many small files in one request, if the service can."""

    def put_whole(self, share: str, path: str, data: bytes) -> ShareFile:
        """Uploads a file of one piece."""

    def whole(self, share: str, path: str) -> tuple[bytes, str]:
        """A file's content, and its SHA-256 if the service has it."""


class PartStorage(Storage, Protocol):
    """A storage that makes parent folders."""

    def make_parents(self, share: str, path: str) -> None:
        """Makes the folders above a path."""


def send(storage: TransferStorage, share: str, copies: Sequence[Copy]) -> Steps[Sequence[ShareFile]]:
    """Uploads files; each appears on the share when all of it is there and its digest is right."""
    sent = yield from together([partial(_sent, storage, share, group) for group in _groups(storage, copies)])
    return [file for group in sent for file in group]


def fetch(storage: TransferStorage, share: str, copies: Sequence[Copy]) -> Steps[None]:
    """Downloads files; each appears when all of it is there and its digest is right."""
    unfinished = Unfinished()
    groups = _groups(storage, copies)
    yield from together([partial(_fetched, storage, share, group, unfinished) for group in groups])


def _groups(storage: TransferStorage, copies: Sequence[Copy]) -> Iterator[list[Copy]]:
    """The files in their order: neighbours that are small together, where the far side takes them so."""
    group: list[Copy] = []
    room = 0
    for copy in copies:
        if group and (copy.size_bytes > room or len(group) == file_packs.MOST_FILES):
            yield group
            group = []
        room = (room if group else file_packs.MOST_BYTES if storage.packed else 0) - copy.size_bytes
        group.append(copy)
    if group:
        yield group


def together(tasks: Sequence[Callable[[], Steps[T]]]) -> Steps[list[T]]:
    """Some of the tasks at once, in threads; gives what each counts, and at last what each gave.

    The first that fails ends the others at their next step; so does who wants no more.
    """
    counts: Counts = queue.SimpleQueue()
    stop = threading.Event()
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="transfer") as pool:
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
    """What all gave; raises the first error."""
    for future in futures:
        future.result()
    return [result for future in futures if (result := future.result()) is not None]


def _sent(storage: TransferStorage, share: str, group: Sequence[Copy]) -> Steps[Sequence[ShareFile]]:
    if storage.packed and len(group) > 1:
        files = {copy.there: _content(copy) for copy in group}
        if sum(map(len, files.values())) <= file_packs.MOST_BYTES:  # else one has grown
            sent = storage.packed.store(share, files)
            yield sum(copy.size_bytes for copy in group)
            return sent
    sent_alone = []
    for copy in group:
        sent_alone.append((yield from _sent_alone(storage, share, copy)))
    return sent_alone


def _sent_alone(storage: TransferStorage, share: str, copy: Copy) -> Steps[ShareFile]:
    if not 0 < copy.size_bytes <= PIECE_BYTES:
        (file,) = yield from DefaultTransfers.send(storage, share, [copy])
        return file
    data = _content(copy)
    sent = storage.put_whole(share, copy.there, data)
    yield len(data)
    return sent


def _content(copy: Copy) -> bytes:
    with naming(copy, "read"):
        return copy.here.read_bytes()


def _fetched(
    storage: TransferStorage, share: str, group: Sequence[Copy], unfinished: Unfinished
) -> Steps[None]:
    found: Mapping[str, Packed] = {}
    if storage.packed and len(group) > 1:
        found = storage.packed.fetch(share, [copy.there for copy in group])
    for copy in group:
        file = found.get(copy.there)
        if file is None:
            yield from _fetched_alone(storage, share, copy, unfinished)
        elif not file.is_right:
            raise spoiled(copy, is_changed=False)
        else:
            yield _kept(copy, file.data, unfinished)


def _fetched_alone(storage: TransferStorage, share: str, copy: Copy, unfinished: Unfinished) -> Steps[None]:
    if not 0 < copy.size_bytes <= PIECE_BYTES:
        yield from DefaultTransfers.fetch(storage, share, [copy])
        return
    data, digest = storage.whole(share, copy.there)
    if digest not in ("", hashlib.sha256(data).hexdigest()):
        raise spoiled(copy, is_changed=False)
    yield _kept(copy, data, unfinished)


def _kept(copy: Copy, data: bytes, unfinished: Unfinished) -> int:
    """Puts a whole file in its place; gives how many bytes it has."""
    with naming(copy, "written"):
        part = Unfinished.name(copy.here, copy.there)
        part.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(data)
        part.replace(copy.here)
        unfinished.drop(copy.here)
    return len(data)


class PartUploads:
    """Uploads in pieces by Azure Files alone: they are appended to a part file beside the target."""

    def __init__(self, storage: PartStorage) -> None:
        self._storage = storage

    def begin(self, share: str, path: str, size_bytes: int) -> int:
        """Starts, or goes on: gives the offset to send from."""
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
        """The next piece; what an earlier try of it left is cut off."""
        part = _part(path)
        self._storage.resize(share, part, offset + len(data))
        self._storage.change(share, part, offset, data)

    def finish(self, share: str, path: str, sha256: str) -> None:
        """Puts the file in its place if its digest is right; it is read once more for that."""
        part = _part(path)
        if self._digest(share, part) != sha256:
            self._storage.delete(share, part)
            raise api_errors.damaged_upload(share, path)
        self._storage.rename(share, part, path)

    def whole(self, share: str, path: str, data: bytes) -> ShareFile:
        """Puts a file that is one piece in its place."""
        self.begin(share, path, len(data))
        self.write(share, path, 0, data)
        self._storage.rename(share, _part(path), path)
        return self._storage.show(share, path)

    def _digest(self, share: str, path: str) -> str:
        digest, offset = hashlib.sha256(), 0
        while data := self._storage.read(share, path, offset, PIECE_BYTES):
            digest.update(data)
            offset += len(data)
        return digest.hexdigest()


def is_part(path: str) -> bool:
    """Whether a file is one that is not whole yet."""
    name = path.rpartition("/")[2]
    return name.startswith(_PART) and len(name) == len(_PART) + _MARK_LENGTH


def _part(path: str) -> str:
    """Where a file is until it is whole: named for it, so that another process finds it."""
    mark = hashlib.sha256(path.encode()).hexdigest()[:_MARK_LENGTH]
    return str(PurePosixPath(path).with_name(f"{_PART}{mark}"))
