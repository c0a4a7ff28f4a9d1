"""The Storage protocol over the published API of Azure Files."""

from __future__ import annotations

import contextlib
import hashlib
import queue
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from batchai_magics.backends.arm.share_clients import (
    NO_SHARE,
    ResponseHeaders,
    ShareClients,
    check_file,
    checked_path,
    file_of,
    ignore_existing,
    listed_file,
    share_errors,
    translated_errors,
)
from batchai_magics.backends.azure.bounded_transport import check_size
from batchai_magics.backends.base import Copy, ShareFile, Storage, api_errors
from batchai_magics.backends.base.storage import (
    BLOCK_BYTES,
    PartialDownloads,
    naming,
    transfer_error,
)
from batchai_magics.backends.service import extension_bodies
from batchai_magics.backends.service.extension_bodies import PackedFile
from batchai_magics.backends.service.extension_wire import DIGEST, WANT_DIGEST
from batchai_magics.config import DEFAULT_ACCOUNT
from batchai_magics.errors import ConflictError, NotFoundError, ServiceError
from batchai_magics.models.job_execution import FileKind

if TYPE_CHECKING:
    from azure.storage.fileshare import ShareClient, ShareFileClient


_PAGE_BYTES = 512  # the unit in which the service clears ranges
_RANGE_BYTES = 4 << 20  # the limit of one write request
_PART = ".batchai-part-"
_MARK_LENGTH = 16
_MAX_THREADS = 4
T = TypeVar("T")
Steps = Generator[int, None, T]
Counts = queue.SimpleQueue["int | None"]  # None: a task has ended


class PublishedStorage(Storage):
    """The shares of all storage accounts, through the published API of Azure Files."""

    packed: PackedFiles | None = None  # transfers of many small files in one request

    def __init__(self, clients: ShareClients, noun: str = "share") -> None:
        self._clients, self._noun = clients, noun

    def make(self, share: str) -> None:
        """Creates a share unless it exists."""
        with ignore_existing(), self._share(share) as client:
            client.create_share()

    def shares(self) -> Sequence[str]:
        """The names of all shares, sorted."""
        names: list[str] = []
        for account in self._clients.names():
            prefix = "" if account == DEFAULT_ACCOUNT else f"{account}/"
            with translated_errors():
                listed_shares = self._clients.account(account).list_shares()
                names += [f"{prefix}{share['name']}" for share in listed_shares]
        return sorted(names)

    def upload(self, share: str, files: Mapping[str, bytes]) -> None:
        """Writes files, not atomically: Azure Files creates each before it has its content."""
        contents = {checked_path(path): content for path, content in files.items()}
        for path, content in contents.items():
            try:
                self._upload(share, path, content)
            except NotFoundError as error:
                if error.code != "ParentNotFound":
                    raise
                self.make_parents(share, path)
                self._upload(share, path, content)

    def list(self, share: str, path: str = "") -> Sequence[ShareFile]:
        """One level of a folder, sorted by name."""
        folder = checked_path(path)
        with self._share(share) as client:
            items = client.get_directory_client(folder or None).list_directories_and_files(
                include=["timestamps"]
            )
            entries = [listed_file(folder, item) for item in items]
        return sorted((entry for entry in entries if not is_part(entry.path)), key=lambda entry: entry.path)

    def show(self, share: str, path: str) -> ShareFile:
        """A file or folder, as of now."""
        place = checked_path(path)
        with share_errors(share, path, self._noun):
            try:
                with self.file(share, place) as client:
                    return file_of(place, client.get_file_properties(), FileKind.FILE)
            except (NotFoundError, ConflictError) as error:  # it may be a folder
                if isinstance(error, NotFoundError) and error.code in NO_SHARE:
                    raise
            with self._share(share) as shares:
                folder = shares.get_directory_client(place).get_directory_properties()
            return file_of(place, folder, FileKind.DIRECTORY)

    def download(self, share: str, path: str) -> bytes:
        """A file's content."""
        with self.file(share, path) as client:
            return _read_content(client.download_file(), client.url)

    def delete(self, share: str, path: str) -> None:
        """Deletes a file, or a folder with its contents."""
        place = checked_path(path)
        if not place:
            raise api_errors.not_on_share(share, path)
        self._delete(share, place)

    def remove(self, share: str) -> None:
        """Deletes a share with its contents."""
        with self._share(share) as client:
            client.delete_share()

    def read(self, share: str, path: str, offset: int, limit: int) -> bytes:
        """At most `limit` bytes of a file from `offset`, in one request; empty at the end."""
        try:
            with self.file(share, path) as client:
                return bytes(client.download_file(offset=offset, length=limit).readall())
        except ServiceError as error:
            if error.code == "InvalidRange":
                return b""
            raise

    def digest(self, share: str, path: str) -> str:
        """The SHA-256 (hex) of a stored file; empty if the service does not compute it."""
        response_headers = ResponseHeaders()
        with share_errors(share, path, self._noun), self.file(share, path) as client:
            properties = client.get_file_properties(
                headers={WANT_DIGEST: "1"}, raw_response_hook=response_headers.keep
            )
            check_file(file_of(path, properties, FileKind.FILE))
        return response_headers.get(DIGEST)

    def make_folder(self, share: str, path: str) -> None:
        """Creates a folder unless it exists."""
        with ignore_existing(), self._share(share) as client:
            client.get_directory_client(checked_path(path)).create_directory()

    def make_parents(self, share: str, path: str) -> None:
        """Creates the folders above a path."""
        for folder in reversed(PurePosixPath(checked_path(path)).parents):
            if str(folder) != ".":
                self.make_folder(share, str(folder))

    def resize(self, share: str, path: str, size_bytes: int) -> None:
        """Truncates or extends a file; creates one of zeros if it is missing."""
        try:
            with self.file(share, path) as client:
                client.resize_file(size_bytes)
        except NotFoundError as error:
            if error.code != "ResourceNotFound":
                raise
            with self.file(share, path) as client:
                client.create_file(0)
                client.resize_file(size_bytes)

    def change(self, share: str, path: str, offset: int, data: bytes) -> None:
        """Writes into an existing file and extends it if needed."""
        end = offset + len(data)
        if end > self.show(share, path).size_bytes:
            self.resize(share, path, end)
        with self.file(share, path) as client:
            for start in range(0, len(data), _RANGE_BYTES):
                piece = data[start : start + _RANGE_BYTES]
                client.upload_range(piece, offset + start, len(piece))

    def clear(self, share: str, path: str, offset: int, size_bytes: int) -> None:
        """Zeroes a range of a file: whole pages with a clear request, the ends with writes."""
        end = offset + size_bytes
        first, last = min(end, -(-offset // _PAGE_BYTES) * _PAGE_BYTES), end // _PAGE_BYTES * _PAGE_BYTES
        for start, stop in ((offset, first), (max(first, last), end)):
            if start < stop:
                self.change(share, path, start, bytes(stop - start))
        if first < last:
            with self.file(share, path) as client:
                client.clear_range(offset=first, length=last - first)

    def rename(self, share: str, path: str, new_path: str) -> None:
        """Renames a file or folder; replaces a file of that name."""
        source, target = checked_path(path), checked_path(new_path)
        self._rename(share, source, target)

    def upload_small(self, share: str, path: str, data: bytes) -> ShareFile:
        """Uploads a file of one piece; it appears when it is complete."""
        return PartUploads(self).upload(share, checked_path(path), data)

    def download_with_digest(self, share: str, path: str) -> tuple[bytes, str]:
        """A file's content, and its SHA-256 or an empty string, in one request."""
        response_headers = ResponseHeaders()
        with self.file(share, path) as client:
            stream = client.download_file(headers={WANT_DIGEST: "1"}, raw_response_hook=response_headers.keep)
            data = _read_content(stream, client.url)
        return data, response_headers.get(DIGEST)

    def send(self, share: str, copies: Sequence[Copy]) -> Generator[int, None, Sequence[ShareFile]]:
        """Uploads files in parallel; each appears when it is complete and its digest matches."""
        return send(self, share, copies)

    def fetch(self, share: str, copies: Sequence[Copy]) -> Iterator[int]:
        """Downloads files in parallel; each appears when it is complete and its digest matches."""
        return fetch(self, share, copies)

    def begin(self, share: str, path: str, size_bytes: int) -> int:
        """Starts or resumes an upload in pieces; returns the offset to send from."""
        return PartUploads(self).begin(share, checked_path(path), size_bytes)

    def write(self, share: str, path: str, offset: int, data: bytes) -> None:
        """Sends the next piece of an upload that `begin` started."""
        PartUploads(self).write(share, checked_path(path), offset, data)

    def finish(self, share: str, path: str, sha256: str) -> None:
        """Moves an uploaded file into place if its digest matches."""
        PartUploads(self).finish(share, checked_path(path), sha256)

    @contextlib.contextmanager
    def file(self, share: str, path: str) -> Iterator[ShareFileClient]:
        """The client of a file; its exceptions are translated into ours."""
        place = checked_path(path)
        with self._share(share) as client:
            yield client.get_file_client(place)

    @contextlib.contextmanager
    def _share(self, share: str) -> Iterator[ShareClient]:
        try:
            with translated_errors():
                yield self._clients.share(share)
        except ServiceError as error:
            if error.code == "AuthenticationFailed":
                self._clients.forget()
            raise

    def _upload(self, share: str, path: str, content: bytes) -> None:
        with self.file(share, path) as client:
            client.upload_file(content, length=len(content), max_concurrency=1)

    def _delete(self, share: str, path: str) -> None:
        if not self.show(share, path).is_directory:
            with self.file(share, path) as file:
                file.delete_file()
            return
        for entry in self.list(share, path):
            self.delete(share, entry.path)
        with self._share(share) as client:
            client.get_directory_client(path).delete_directory()

    def _rename(self, share: str, path: str, new_path: str) -> None:
        if not self.show(share, path).is_directory:
            with self.file(share, path) as file:
                file.rename_file(new_path, overwrite=True)
            return
        with self._share(share) as client:
            client.get_directory_client(path).rename_directory(new_path)


def _read_content(stream: Any, url: str) -> bytes:
    """The content of a file that is returned as one value; larger ones are fetched or read in pieces."""
    check_size(url, stream.size)
    return bytes(stream.readall())


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
    return [result for future in futures if (result := future.result()) is not None]


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
        (file,) = yield from Storage.send(storage, share, [copy])
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
    packed: Mapping[str, PackedFile] = {}
    if storage.packed and len(group) > 1:
        packed = storage.packed.fetch(share, [copy.path for copy in group])
    for copy in group:
        file = packed.get(copy.path)
        if file is None:
            yield from _fetch_one(storage, share, copy, unfinished)
        elif not file.is_intact:
            raise transfer_error(copy, is_changed=False)
        else:
            yield _save(copy, file.data, unfinished)


def _fetch_one(storage: TransferStorage, share: str, copy: Copy, unfinished: PartialDownloads) -> Steps[None]:
    if not 0 < copy.size_bytes <= BLOCK_BYTES:
        yield from Storage.fetch(storage, share, [copy])
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
        digest, offset = hashlib.sha256(), 0
        while data := self._storage.read(share, part, offset, BLOCK_BYTES):
            digest.update(data)
            offset += len(data)
        if digest.hexdigest() != sha256:
            self._storage.delete(share, part)
            raise api_errors.damaged_upload(share, path)
        self._storage.rename(share, part, path)

    def upload(self, share: str, path: str, data: bytes) -> ShareFile:
        """Uploads a file of one piece."""
        self.begin(share, path, len(data))
        self.write(share, path, 0, data)
        self._storage.rename(share, _part(path), path)
        return self._storage.show(share, path)


def is_part(path: str) -> bool:
    """Whether a path names a part file."""
    name = path.rpartition("/")[2]
    return name.startswith(_PART) and len(name) == len(_PART) + _MARK_LENGTH


def _part(path: str) -> str:
    """The part file of a path, derived from it so that another process can resume."""
    mark = hashlib.sha256(path.encode()).hexdigest()[:_MARK_LENGTH]
    return str(PurePosixPath(path).with_name(f"{_PART}{mark}"))
