"""The storage of `batchai serve`: Azure Files with atomic uploads, digests, packs of files and containers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from batchai_magics.backends.arm.connection import EndpointConnection, provider_path
from batchai_magics.backends.arm.published_storage import PublishedStorage, Steps, read_local, save_local
from batchai_magics.backends.arm.share_clients import (
    ResponseHeaders,
    ShareClients,
    checked_path,
    file_of,
    share_errors,
)
from batchai_magics.backends.arm.subscription_facets import ServerAccounts
from batchai_magics.backends.azure.arm_protocol import ArmRequest
from batchai_magics.backends.base import Copy, ShareFile, api_errors
from batchai_magics.backends.base.storage import BLOCK_BYTES, PartialDownloads, transfer_error
from batchai_magics.backends.service import extension_bodies
from batchai_magics.backends.service.extension_bodies import PackedFile
from batchai_magics.backends.service.extension_wire import (
    DIGEST,
    OWN_CLIENT,
    RECEIVED,
    SERVICE,
    UPLOAD,
    UploadStep,
)
from batchai_magics.config import DEFAULT_ACCOUNT
from batchai_magics.models.job_execution import FileKind
from batchai_magics.models.response_object import ResponseObject, unreadable
from batchai_magics.models.wire_times import parse_time


class ExtendedStorage(PublishedStorage):
    """The shares of our own server, or with the service `blob` its containers; `group` has its own account.

    The server keeps unfinished uploads out of sight.
    """

    def __init__(
        self, connection: EndpointConnection, accounts: ServerAccounts, group: str, service: str
    ) -> None:
        clients = ServerShareClients(connection, accounts, group, service)
        super().__init__(clients, "container" if service == "blob" else "share")
        self._connection, self._service = connection, service

    def upload(self, share: str, files: Mapping[str, bytes]) -> None:
        """Writes files; each that fits into one request appears whole or not at all."""
        contents = {checked_path(path): content for path, content in files.items()}
        for path, content in contents.items():
            if 0 < len(content) <= BLOCK_BYTES:
                self.upload_small(share, path, content)
            else:
                super().upload(share, {path: content})

    def show(self, share: str, path: str) -> ShareFile:
        """A file or folder; the server answers for both alike."""
        place = checked_path(path)
        with share_errors(share, path, self._noun), self.file(share, place) as client:
            return file_of(place, client.get_file_properties(), FileKind.FILE)

    def begin(self, share: str, path: str, size_bytes: int) -> int:
        """Starts or resumes an upload in pieces; returns the offset to send from."""
        response = ResponseHeaders()
        with self.file(share, path) as client:
            headers = {UPLOAD: UploadStep.BEGIN.value}
            client.create_file(size_bytes, headers=headers, raw_response_hook=response.keep)
        return int(response.get(RECEIVED, "0"))

    def write(self, share: str, path: str, offset: int, data: bytes) -> None:
        """Sends the next piece of an upload."""
        with self.file(share, path) as client:
            client.upload_range(data, offset, len(data), headers={UPLOAD: UploadStep.WRITE.value})

    def finish(self, share: str, path: str, sha256: str) -> None:
        """Publishes an uploaded file if its digest matches."""
        with self.file(share, path) as client:
            headers = {UPLOAD: UploadStep.FINISH.value, DIGEST: sha256}
            client.set_file_metadata({}, headers=headers)

    def upload_small(self, share: str, path: str, data: bytes) -> ShareFile:
        """Uploads a file of one piece in one request."""
        place = checked_path(path)
        headers = {UPLOAD: UploadStep.WHOLE.value, DIGEST: hashlib.sha256(data).hexdigest()}
        response = ResponseHeaders()
        with self.file(share, place) as client:
            client.upload_range(data, 0, len(data), headers=headers, raw_response_hook=response.keep)
        written = parse_time(response.get("x-ms-file-last-write-time"))
        return ShareFile(place, FileKind.FILE, len(data), written)

    def store_pack(self, share: str, files: Mapping[str, bytes]) -> Sequence[ShareFile]:
        """Uploads small files in one request: all of them, or none if one is corrupted in transit."""
        request = self._pack_request("batchaiStoreFiles", share, content=extension_bodies.pack_files(files))
        response = self._connection.request_json(request)
        times = ResponseObject.of(response, "the files that were sent").items("value")
        return [
            ShareFile(path, FileKind.FILE, len(data), parse_time(str(time)))
            for (path, data), time in zip(files.items(), times, strict=True)
        ]

    def fetch_pack(self, share: str, paths: Sequence[str]) -> Mapping[str, PackedFile]:
        """Downloads the files that the server packs into one response; the others need a request each."""
        request = self._pack_request("batchaiFetchFiles", share, body={"paths": list(paths)})
        with self._connection.translated_errors():
            body = self._connection.send(request, is_streamed=True).read()
        try:
            return {file.path: file for file in extension_bodies.unpack_files(body)}
        except ValueError as error:
            raise unreadable("the files that were fetched", str(error)) from error

    def _pack_request(self, action: str, share: str, **body: Any) -> ArmRequest:
        path = provider_path(self._connection.subscription, action)
        return ArmRequest("POST", path, {"share": share, "service": self._service}, **body)

    def _groups(self, copies: Sequence[Copy]) -> Iterator[Sequence[Copy]]:
        """Groups of neighbouring small files, in order, each of which fits into one pack."""
        group: list[Copy] = []
        room = 0
        for copy in copies:
            if group and (copy.size_bytes > room or len(group) == extension_bodies.MAX_FILES):
                yield group
                group = []
            room = (room if group else extension_bodies.MAX_BYTES) - copy.size_bytes
            group.append(copy)
        if group:
            yield group

    def _send_group(self, share: str, group: Sequence[Copy]) -> Steps[Sequence[ShareFile]]:
        if len(group) > 1:
            files = {copy.path: read_local(copy) for copy in group}
            if sum(map(len, files.values())) <= extension_bodies.MAX_BYTES:  # else a file has grown
                sent = self.store_pack(share, files)
                yield sum(copy.size_bytes for copy in group)
                return sent
        return (yield from super()._send_group(share, group))

    def _fetch_group(self, share: str, group: Sequence[Copy], unfinished: PartialDownloads) -> Steps[None]:
        packed = self.fetch_pack(share, [copy.path for copy in group]) if len(group) > 1 else {}
        for copy in group:
            file = packed.get(copy.path)
            if file is None:
                yield from super()._fetch_group(share, [copy], unfinished)
            elif not file.is_intact:
                raise transfer_error(copy, is_changed=False)
            else:
                yield save_local(copy, file.data, unfinished)

    def delete(self, share: str, path: str) -> None:
        """Deletes a file, or a folder with its contents, as the server does."""
        if not checked_path(path):
            raise api_errors.not_on_share(share, path)
        with self.file(share, path) as client:
            client.delete_file()

    def rename(self, share: str, path: str, new_path: str) -> None:
        """Renames a file or folder; replaces a file of that name."""
        with self.file(share, path) as file:
            file.rename_file(checked_path(new_path), overwrite=True)


class ServerShareClients(ShareClients):
    """Clients for the accounts of our own server, whose default account is in none of its lists."""

    def __init__(
        self, connection: EndpointConnection, accounts: ServerAccounts, group: str, service: str
    ) -> None:
        super().__init__(connection, accounts)
        self._group = group
        self.headers = {OWN_CLIENT: "1", **({SERVICE: "blob"} if service == "blob" else {})}

    def names(self) -> list[str]:
        """The names of all accounts."""
        return [DEFAULT_ACCOUNT, *super().names()]

    def _address(self, name: str) -> str:
        return f"{self._connection.endpoint.url}/{name}"

    def _key(self, name: str) -> str:
        if name == DEFAULT_ACCOUNT:
            return self._accounts.keys_in(name, self._group)[0]
        return super()._key(name)
