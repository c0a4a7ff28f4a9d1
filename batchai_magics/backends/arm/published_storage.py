"""The Storage protocol over the published API of Azure Files."""

from __future__ import annotations

import contextlib
import hashlib
import os
import queue
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

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
        """The current properties of a file or folder."""
        target = checked_path(path)
        with share_errors(share, path, self._noun):
            try:
                with self.file(share, target) as client:
                    return file_of(target, client.get_file_properties(), FileKind.FILE)
            except (NotFoundError, ConflictError) as error:  # it may be a folder
                if isinstance(error, NotFoundError) and error.code in NO_SHARE:
                    raise
            with self._share(share) as shares:
                folder = shares.get_directory_client(target).get_directory_properties()
            return file_of(target, folder, FileKind.DIRECTORY)

    def download(self, share: str, path: str) -> bytes:
        """A file's content."""
        with self.file(share, path) as client:
            return _read_content(client.download_file(), client.url)

    def delete(self, share: str, path: str) -> None:
        """Deletes a file, or a folder with its contents."""
        target = checked_path(path)
        if not target:
            raise api_errors.not_on_share(share, path)
        if not self.show(share, target).is_directory:
            with self.file(share, target) as file:
                file.delete_file()
            return
        for entry in self.list(share, target):
            self.delete(share, entry.path)
        with self._share(share) as client:
            client.get_directory_client(target).delete_directory()

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
        if not self.show(share, source).is_directory:
            with self.file(share, source) as file:
                file.rename_file(target, overwrite=True)
            return
        with self._share(share) as client:
            client.get_directory_client(source).rename_directory(target)

    def upload_small(self, share: str, path: str, data: bytes) -> ShareFile:
        """Uploads a file of one piece; it appears when it is complete."""
        self.begin(share, path, len(data))
        self.write(share, path, 0, data)
        self.rename(share, _part(path), path)
        return self.show(share, path)

    def download_with_digest(self, share: str, path: str) -> tuple[bytes, str]:
        """A file's content, and its SHA-256 or an empty string, in one request."""
        response_headers = ResponseHeaders()
        with self.file(share, path) as client:
            stream = client.download_file(headers={WANT_DIGEST: "1"}, raw_response_hook=response_headers.keep)
            data = _read_content(stream, client.url)
        return data, response_headers.get(DIGEST)

    def send(self, share: str, copies: Sequence[Copy]) -> Steps[Sequence[ShareFile]]:
        """Uploads files in parallel; each appears when it is complete and its digest matches."""
        groups = self._groups(copies)
        sent = yield from run_parallel([partial(self._send_group, share, group) for group in groups])
        return [file for group in sent for file in group]

    def fetch(self, share: str, copies: Sequence[Copy]) -> Steps[None]:
        """Downloads files in parallel; each appears when it is complete and its digest matches."""
        groups, unfinished = self._groups(copies), PartialDownloads()
        yield from run_parallel([partial(self._fetch_group, share, group, unfinished) for group in groups])

    def begin(self, share: str, path: str, size_bytes: int) -> int:
        """Starts or resumes an upload in pieces, which are appended to a part file beside the target.

        Returns the offset to send from.
        """
        part = _part(path)
        try:
            received = self.show(share, part).size_bytes
        except NotFoundError:
            received = size_bytes + 1
        if received <= size_bytes:
            return received
        self.make_parents(share, path)
        self.resize(share, part, 0)
        return 0

    def write(self, share: str, path: str, offset: int, data: bytes) -> None:
        """Sends the next piece of an upload that `begin` started; truncates the part file behind it."""
        part = _part(path)
        self.resize(share, part, offset + len(data))
        self.change(share, part, offset, data)

    def finish(self, share: str, path: str, sha256: str) -> None:
        """Moves an uploaded file into place if its digest matches, for which it reads the file."""
        part = _part(path)
        digest, offset = hashlib.sha256(), 0
        while data := self.read(share, part, offset, BLOCK_BYTES):
            digest.update(data)
            offset += len(data)
        if digest.hexdigest() != sha256:
            self.delete(share, part)
            raise api_errors.damaged_upload(share, path)
        self.rename(share, part, path)

    @contextlib.contextmanager
    def file(self, share: str, path: str) -> Iterator[ShareFileClient]:
        """The client of a file; its exceptions are translated into ours."""
        target = checked_path(path)
        with self._share(share) as client:
            yield client.get_file_client(target)

    @contextlib.contextmanager
    def _share(self, share: str) -> Iterator[ShareClient]:
        try:
            with translated_errors():
                yield self._clients.share(share)
        except ServiceError as error:
            if error.code == "AuthenticationFailed":
                self._clients.forget()
            raise

    def _groups(self, copies: Sequence[Copy]) -> Iterator[Sequence[Copy]]:
        """Groups of files that are transferred together, in order."""
        return ([copy] for copy in copies)

    def _send_group(self, share: str, group: Sequence[Copy]) -> Steps[Sequence[ShareFile]]:
        sent: list[ShareFile] = []
        for copy in group:
            if 0 < copy.size_bytes <= BLOCK_BYTES:
                data = read_local(copy)
                sent.append(self.upload_small(share, copy.path, data))
                yield len(data)
            else:
                sent += yield from super().send(share, [copy])
        return sent

    def _fetch_group(self, share: str, group: Sequence[Copy], unfinished: PartialDownloads) -> Steps[None]:
        for copy in group:
            if not 0 < copy.size_bytes <= BLOCK_BYTES:
                yield from super().fetch(share, [copy])
                continue
            data, digest = self.download_with_digest(share, copy.path)
            if digest not in ("", hashlib.sha256(data).hexdigest()):
                raise transfer_error(copy, is_changed=False)
            yield save_local(copy, data, unfinished)

    def _upload(self, share: str, path: str, content: bytes) -> None:
        with self.file(share, path) as client:
            client.upload_file(content, length=len(content), max_concurrency=1)


def _read_content(stream: Any, url: str) -> bytes:
    """The content of a file as one value; raises ServiceError for one that must be read in pieces."""
    check_size(url, stream.size)
    return bytes(stream.readall())


def run_parallel(tasks: Sequence[Callable[[], Steps[T]]]) -> Steps[list[T]]:
    """Runs tasks in a thread pool; yields the byte counts they yield and returns their results in order.

    The first failure stops the others at their next step, as does closing the generator.
    """
    counts: Counts = queue.SimpleQueue()
    stop = threading.Event()

    def run(task: Callable[[], Steps[T]]) -> T | None:
        steps = task()
        while not stop.is_set():
            try:
                counts.put(next(steps))
            except StopIteration as end:
                result: T = end.value
                return result
        steps.close()
        return None

    def end(future: Future[T | None]) -> None:
        if future.exception():
            stop.set()
        counts.put(None)

    with ThreadPoolExecutor(_MAX_THREADS, thread_name_prefix="transfer") as pool:
        try:
            futures = [pool.submit(run, task) for task in tasks]
            for future in futures:
                future.add_done_callback(end)
            running_count = len(futures)
            while running_count:
                count = counts.get()
                if count is None:
                    running_count -= 1
                else:
                    yield count
        finally:
            stop.set()
    return [result for future in futures if (result := future.result()) is not None]


def read_local(copy: Copy) -> bytes:
    """The content of the local file of a copy."""
    with naming(copy, "read"):
        return copy.local_path.read_bytes()


def save_local(copy: Copy, data: bytes, unfinished: PartialDownloads) -> int:
    """Writes the local file of a copy atomically; returns its size in bytes."""
    with naming(copy, "written"):
        target = str(copy.local_path)
        part = PartialDownloads.path(target, copy.path)
        with _open_part(part) as file:
            file.write(data)
        os.replace(part, target)  # noqa: PTH105 pathlib is slow
        unfinished.drop(target)
    return len(data)


def _open_part(part: str) -> BinaryIO:
    try:
        return open(part, "wb")  # noqa: PTH123 as above
    except FileNotFoundError:
        Path(part).parent.mkdir(parents=True, exist_ok=True)
        return open(part, "wb")  # noqa: PTH123 as above


def is_part(path: str) -> bool:
    """Whether a path names a part file."""
    name = path.rpartition("/")[2]
    return name.startswith(_PART) and len(name) == len(_PART) + _MARK_LENGTH


def _part(path: str) -> str:
    """The part file of a path, derived from it so that another process can resume."""
    target = checked_path(path)
    mark = hashlib.sha256(target.encode()).hexdigest()[:_MARK_LENGTH]
    return str(PurePosixPath(target).with_name(f"{_PART}{mark}"))
