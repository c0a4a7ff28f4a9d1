"""The clients of azure-storage-file-share, one per account; translation of their results and errors."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, unquote

from batchai_magics.backends.arm.connection import Endpoint, EndpointConnection
from batchai_magics.backends.arm.subscription_facets import ServerAccounts
from batchai_magics.backends.azure import arm_protocol
from batchai_magics.backends.azure.arm_client import USER_AGENT
from batchai_magics.backends.azure.bounded_transport import bounded_transport
from batchai_magics.backends.base import ShareFile, api_errors
from batchai_magics.config import DEFAULT_ACCOUNT
from batchai_magics.errors import ConflictError, NotFoundError, ServiceError, StorageError
from batchai_magics.models.job_execution import FileKind
from batchai_magics.models.resource_ids import check_share_name
from batchai_magics.models.wire_times import parse_time

if TYPE_CHECKING:
    from azure.storage.fileshare import ShareClient, ShareFileClient, ShareServiceClient


_BACKOFF_S, _RETRIES = 1, 2  # the defaults retry for a minute and a half
_HOST = ".file."


class ShareClients:
    """The service clients of storage accounts, each created with the account's key on first use."""

    headers: Mapping[str, str] = {}  # of every request

    def __init__(self, connection: EndpointConnection, accounts: ServerAccounts) -> None:
        self._connection, self._accounts = connection, accounts
        self._lock = threading.Lock()
        self._clients: dict[str, ShareServiceClient] = {}

    def names(self) -> list[str]:
        """The names of all accounts."""
        return [account.name for account in self._accounts.list()]

    def account(self, name: str) -> ShareServiceClient:
        """The client of an account."""
        with self._lock:
            client = self._clients.get(name)
        if client is None:
            from azure.storage.fileshare import ShareServiceClient

            client = ShareServiceClient(
                self._address(name),
                credential={"account_name": name, "account_key": self._key(name)},
                headers=dict(self.headers),
                **_settings(self._connection.endpoint),
            )
            with self._lock:
                self._clients[name] = client
        return client

    def share(self, share: str) -> ShareClient:
        """The client of a share `account/name`, or `name`."""
        account, _, name = check_share_name(share).rpartition("/")
        return self.account(account or DEFAULT_ACCOUNT).get_share_client(name)

    def forget(self) -> None:
        """Drops all clients: their keys may have been renewed."""
        with self._lock:
            self._clients.clear()

    def _address(self, name: str) -> str:
        return f"https://{name}.file.core.windows.net"

    def _key(self, name: str) -> str:
        return self._accounts.keys(name)[0]


class ResponseHeaders:
    """All headers of a response, of which clients return only some; pass `keep` as `raw_response_hook`."""

    def __init__(self) -> None:
        self._headers: Mapping[str, str] = {}

    def keep(self, response: Any) -> None:
        """Keeps the headers of a response."""
        self._headers = {name.lower(): value for name, value in response.http_response.headers.items()}

    def get(self, name: str, default: str = "") -> str:
        """The value of a header; `name` is in lower case."""
        return self._headers.get(name, default)


def signed_file_client(endpoint: Endpoint, address: SplitResult) -> ShareFileClient:
    """The client of one file by its SAS URL: `…/account/share/path`, or with the account in the host name."""
    from azure.core.credentials import AzureSasCredential
    from azure.storage.fileshare import ShareFileClient

    path = unquote(address.path).strip("/")
    account, share_path = ("", path) if _HOST in address.netloc else path.partition("/")[::2]
    share, _, file_path = share_path.partition("/")
    return ShareFileClient(
        f"{address.scheme}://{address.netloc}/{account}".rstrip("/"),
        share,
        file_path,
        credential=AzureSasCredential(address.query),
        **_settings(endpoint),
    )


@contextlib.contextmanager
def translated_errors(url: str = "the storage") -> Iterator[None]:
    """Translates the exceptions of Azure's libraries into ours."""
    from azure.core.exceptions import AzureError, HttpResponseError

    try:
        yield
    except HttpResponseError as error:
        if isinstance(error.__cause__, ServiceError):  # ours, raised while the response was read
            raise error.__cause__ from None
        response: Any = error.response
        if response is None:
            raise arm_protocol.unreachable_error(url, str(error)) from error
        try:
            text = str(response.text())
        except (AzureError, AttributeError, ValueError):  # it is missing or consumed
            text = ""
        code = response.headers.get("x-ms-error-code", "")
        raise arm_protocol.storage_error(response.status_code, text, code) from error
    except AzureError as error:
        raise arm_protocol.unreachable_error(url, str(error)) from error


def _settings(endpoint: Endpoint) -> dict[str, Any]:
    from azure.storage.fileshare import LinearRetry

    retries = LinearRetry(backoff=_BACKOFF_S, retry_total=_RETRIES, random_jitter_range=0)
    transport = bounded_transport(**endpoint.transport())
    return {"retry_policy": retries, "user_agent": USER_AGENT, "transport": transport}


NO_SHARE = ("ShareNotFound", "ContainerNotFound")
_EXISTS = ("ShareAlreadyExists", "ContainerAlreadyExists", "ResourceAlreadyExists")


def checked_path(path: str) -> str:
    """A normalized path; StorageError for one that leaves its share."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise StorageError(f"{path!r} is outside the share", hint="Paths are relative and stay inside.")
    return "/".join(parts)


def listed_file(folder: str, item: Any) -> ShareFile:
    """A file or folder from an item of a directory listing."""
    usual = FileKind.DIRECTORY if item.is_directory else FileKind.FILE
    path = f"{folder}/{item.name}".lstrip("/")
    return ShareFile(path, kind_of(item, usual), _size(item), _modified(item))


def file_of(path: str, properties: Any, usual: FileKind) -> ShareFile:
    """A file or folder from its properties."""
    kind = kind_of(properties, usual)
    size = _size(properties) if kind is FileKind.FILE else 0
    return ShareFile(str(PurePosixPath(path)), kind, size, _modified(properties))


def kind_of(item: Any, usual: FileKind) -> FileKind:
    """The kind of an entry: `batchai serve` puts it into the field of Windows file attributes."""
    words: Mapping[str, FileKind] = {kind.value: kind for kind in FileKind}
    return words.get(str(item.get("file_attributes") or ""), usual)


def check_file(file: ShareFile) -> None:
    """Raises NotFoundError for anything but a regular file."""
    if not file.is_file:
        name = file.path.rpartition("/")[2]
        raise NotFoundError(f"{name} is {file.kind.words}, not a file", code="FileNotFound")


@contextlib.contextmanager
def ignore_existing() -> Iterator[None]:
    """Ignores the conflict of a creation if the resource exists already."""
    try:
        yield
    except ConflictError as error:
        if error.code not in _EXISTS:
            raise


@contextlib.contextmanager
def share_errors(share: str, path: str, noun: str) -> Iterator[None]:
    """Names the share and path in errors that come as a bare code; `noun` is `share` or `container`."""
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
    """The time of the last write; its type depends on the version of the library."""
    moment = item.get("last_write_time") or item.get("last_modified")
    if isinstance(moment, str):
        return parse_time(moment)
    return moment if isinstance(moment, datetime) else None
