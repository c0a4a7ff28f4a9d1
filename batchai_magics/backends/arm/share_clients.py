"""The clients of azure-storage-file-share: one an account, with its key; one for each address of a file."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, unquote

from batchai_magics.backends.arm import answers
from batchai_magics.backends.arm.connection import USER_AGENT, Connection
from batchai_magics.backends.arm.endpoint import Endpoint
from batchai_magics.backends.arm.subscription_facets import Accounts
from batchai_magics.config import DEFAULT_ACCOUNT
from batchai_magics.models.ids import check_share_name

if TYPE_CHECKING:
    from azure.storage.fileshare import ShareClient, ShareFileClient, ShareServiceClient

_BACKOFF_S, _RETRIES = 1, 2  # the defaults retry for a minute and a half
_HOST = ".file."
# Where Azure keeps files, by how the name of its endpoint ends.
_CLOUDS: Mapping[str, str] = {
    ".chinacloudapi.cn": "core.chinacloudapi.cn",
    ".usgovcloudapi.net": "core.usgovcloudapi.net",
}
_PUBLIC = "core.windows.net"


class ShareClients:
    """The service clients of storage accounts: one an account, made with its key on first use and cached."""

    headers: Mapping[str, str] = {}  # of every request

    def __init__(self, connection: Connection, accounts: Accounts) -> None:
        self._connection, self._accounts = connection, accounts
        self._lock = threading.Lock()
        self._made: dict[str, ShareServiceClient] = {}

    def names(self) -> list[str]:
        """The names of all accounts."""
        return [account.name for account in self._accounts.list()]

    def account(self, name: str) -> ShareServiceClient:
        """The client of an account."""
        with self._lock:
            made = self._made.get(name)
        if made is None:
            made = self._make(name)
            with self._lock:
                self._made[name] = made
        return made

    def share(self, share: str) -> ShareClient:
        """The client of a share `account/name`, or `name`."""
        account, _, name = check_share_name(share).rpartition("/")
        return self.account(account or DEFAULT_ACCOUNT).get_share_client(name)

    def forget(self) -> None:
        """Drops all clients: their keys may have been renewed."""
        with self._lock:
            self._made.clear()

    def _make(self, name: str) -> ShareServiceClient:
        from azure.storage.fileshare import ShareServiceClient

        return ShareServiceClient(
            self._address(name),
            credential={"account_name": name, "account_key": self._key(name)},
            headers=dict(self.headers),
            **_settings(self._connection.endpoint),
        )

    def _address(self, name: str) -> str:
        host = self._connection.endpoint.host
        suffix = next((domain for end, domain in _CLOUDS.items() if host.endswith(end)), _PUBLIC)
        return f"https://{name}.file.{suffix}"

    def _key(self, name: str) -> str:
        return self._accounts.keys(name)[0]


class Headers:
    """The headers of an answer, of which clients tell a part alone; `keep` is their `raw_response_hook`."""

    def __init__(self) -> None:
        self._told: Mapping[str, str] = {}

    def keep(self, response: Any) -> None:
        """Keeps the headers of an answer."""
        self._told = {name.lower(): value for name, value in response.http_response.headers.items()}

    def get(self, name: str, default: str = "") -> str:
        """What the answer says under a name in small letters."""
        return self._told.get(name, default)


def file_client(endpoint: Endpoint, address: SplitResult) -> ShareFileClient:
    """The client of one file, by an address with a signature: `…/account/share/path`, or by its host."""
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
def translated(url: str = "the storage") -> Iterator[None]:
    """Makes what the library raises an error of ours."""
    from azure.core.exceptions import AzureError, HttpResponseError

    try:
        yield
    except HttpResponseError as error:
        response: Any = error.response
        if response is None:
            raise answers.unreachable(url, str(error)) from error
        code = response.headers.get("x-ms-error-code", "")
        raise answers.storage_refused(response.status_code, _text(response), code) from error
    except AzureError as error:
        raise answers.unreachable(url, str(error)) from error


def _text(response: Any) -> str:
    """The body of an error; there is none where a header says it all, or where it is gone already."""
    from azure.core.exceptions import AzureError

    try:
        return str(response.text())
    except (AzureError, AttributeError, ValueError):
        return ""


def _settings(endpoint: Endpoint) -> dict[str, Any]:
    from azure.storage.fileshare import LinearRetry

    retries = LinearRetry(backoff=_BACKOFF_S, retry_total=_RETRIES, random_jitter_range=0)
    return {"retry_policy": retries, "user_agent": USER_AGENT, **endpoint.transport()}
