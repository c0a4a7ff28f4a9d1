"""The Storage protocol over the published API of Azure Files."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from batchai_magics.backends.arm import share_transfers
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
from batchai_magics.backends.arm.share_transfers import PackedFiles, PartUploads, is_part
from batchai_magics.backends.azure.bounded_transport import check_size
from batchai_magics.backends.base import Copy, DefaultTransfers, ShareFile
from batchai_magics.backends.service import api_errors
from batchai_magics.backends.service.extension_wire import DIGEST, WANT_DIGEST
from batchai_magics.config import DEFAULT_ACCOUNT
from batchai_magics.errors import ConflictError, NotFoundError, ServiceError
from batchai_magics.models.job_execution import FileKind

if TYPE_CHECKING:
    from azure.storage.fileshare import ShareClient, ShareFileClient

_PAGE_BYTES = 512  # the unit in which the service clears ranges
_RANGE_BYTES = 4 << 20  # the limit of one write request


class PublishedStorage(DefaultTransfers):
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
        found: list[str] = []
        for account in self._clients.names():
            prefix = "" if account == DEFAULT_ACCOUNT else f"{account}/"
            with translated_errors():
                listed_shares = self._clients.account(account).list_shares()
                found += [f"{prefix}{share['name']}" for share in listed_shares]
        return sorted(found)

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
            found = client.get_directory_client(folder or None).list_directories_and_files(
                include=["timestamps"]
            )
            entries = [listed_file(folder, item) for item in found]
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
            return _whole(client.download_file(), client.url)

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
        told = ResponseHeaders()
        with share_errors(share, path, self._noun), self.file(share, path) as client:
            properties = client.get_file_properties(headers={WANT_DIGEST: "1"}, raw_response_hook=told.keep)
            check_file(file_of(path, properties, FileKind.FILE))
        return told.get(DIGEST)

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
        told = ResponseHeaders()
        with self.file(share, path) as client:
            stream = client.download_file(headers={WANT_DIGEST: "1"}, raw_response_hook=told.keep)
            data = _whole(stream, client.url)
        return data, told.get(DIGEST)

    def send(self, share: str, copies: Sequence[Copy]) -> Generator[int, None, Sequence[ShareFile]]:
        """Uploads files in parallel; each appears when it is complete and its digest matches."""
        return share_transfers.send(self, share, copies)

    def fetch(self, share: str, copies: Sequence[Copy]) -> Iterator[int]:
        """Downloads files in parallel; each appears when it is complete and its digest matches."""
        return share_transfers.fetch(self, share, copies)

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


def _whole(stream: Any, url: str) -> bytes:
    """The content of a file that is returned as one value; larger ones are fetched or read in pieces."""
    check_size(url, stream.size)
    return bytes(stream.readall())
