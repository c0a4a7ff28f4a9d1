"""The connection to a workspace: Azure Resource Manager, the run history, and blobs by signed address."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from batchai_magics.backends.azure import arm_protocol
from batchai_magics.backends.azure.arm_client import TIMING, USER_AGENT, ArmClient
from batchai_magics.backends.azure.arm_protocol import ArmRequest, Hints, sign_in_failure
from batchai_magics.backends.azure.bounded_transport import bounded_transport
from batchai_magics.backends.azureml.settings import AzureMLSettings, WorkspaceAddress
from batchai_magics.errors import ServiceError, StorageError
from batchai_magics.models.wire_times import parse_time
from batchai_magics.user_ports import PROMPT

if TYPE_CHECKING:
    from datetime import datetime

    from azure.core import PipelineClient
    from azure.core.credentials import AccessToken, TokenCredential
    from azure.core.pipeline.transport import RequestsTransport
    from azure.core.rest import HttpResponse
    from azure.mgmt.resource.resources import ResourceManagementClient


_STORAGE_SCOPE = "https://storage.azure.com/.default"
_STORAGE_VERSION = "2021-12-02"
EXPIRED = "SasExpired"  # code of the StorageError for a signed address that is no longer valid
_TOTAL = re.compile(r"/(\d+)\s*$")
_SIGN_IN = "Sign in with `az login`, or set AZURE_CLIENT_ID, AZURE_TENANT_ID and AZURE_CLIENT_SECRET."
HINTS = Hints(
    token="Is your account one of the workspace's? " + _SIGN_IN,
    endpoint="Is azureml.resource_manager the address of Azure Resource Manager?",
    unreachable="Is this machine connected to the internet, and HTTPS_PROXY set where there is a proxy?",
    certificate="Set REQUESTS_CA_BUNDLE to the certificates of this network's proxy.",
    credentials=_SIGN_IN,
)
_EXPIRED_TOKENS = ("ExpiredAuthenticationToken", "InvalidAuthenticationToken", "AuthenticationFailed")


@dataclass(frozen=True)
class WorkspaceInfo:
    """The facts of a workspace."""

    location: str  # the region of its computes, quotas and prices
    discovery_url: str  # where the address of its run history is found
    storage_account: str  # the ARM id of its storage account
    created: datetime  # when it was created, in UTC
    tags: Mapping[str, str]

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> WorkspaceInfo:
        """Reads the JSON of a workspace."""
        properties = data.get("properties") or {}
        created = (data.get("systemData") or {}).get("createdAt") or properties.get("creationTime")
        return cls(
            location=str(data.get("location") or ""),
            discovery_url=str(properties.get("discoveryUrl") or ""),
            storage_account=str(properties.get("storageAccount") or ""),
            created=parse_time(created) if created else datetime.fromtimestamp(0, timezone.utc),
            tags=dict(data.get("tags") or {}),
        )


@dataclass(frozen=True)
class BlobRange:
    """Bytes of a blob, and its size, version and time of modification when they were read."""

    data: bytes
    size: int
    etag: str = ""
    modified: datetime | None = None


class Connection(ArmClient):
    """Sends requests to a workspace and returns JSON; see `ArmClient`.

    Throttled and failed requests are retried within seconds, as Retry-After requires; after that they raise
    UnreachableError. Tokens are renewed when they expire.
    """

    hints = HINTS

    def __init__(self, address: WorkspaceAddress, settings: AzureMLSettings) -> None:
        super().__init__(settings.resource_manager.rstrip("/"))
        self.address, self.settings = address, settings
        self._credential = shared_sign_in()

    def request(
        self,
        method: str,
        path: str = "",
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> ArmRequest:
        """A request to a path below the workspace, such as `jobs/resnet`."""
        full = f"{self.address.path}/{path}" if path else self.address.path
        return ArmRequest(method, full, query or {}, body, version=self.settings.api_version)

    def location_request(self, path: str, location: str = "") -> ArmRequest:
        """A request for the quotas (`usages`) or VM sizes (`vmSizes`) of a location, else the workspace's."""
        full = f"{self.address.location_path(location or self.workspace.location)}/{path}"
        return ArmRequest("GET", full, version=self.settings.api_version)

    def items(self, request: ArmRequest) -> Iterator[Mapping[str, Any]]:
        """All items of a paged list, requested lazily."""
        for page in self.pages(request):
            yield from (item for item in page.get("value") or () if isinstance(item, Mapping))

    def pages(self, request: ArmRequest) -> Iterator[Mapping[str, Any]]:
        """The pages of a list, requested lazily; only the query of a next link is used."""
        while True:
            page = self.request_json(request)
            yield page
            query = arm_protocol.link_query(page.get("nextLink"))
            if not query or query == request.query:
                return
            request = replace(request, query=query)

    @cached_property
    def workspace(self) -> WorkspaceInfo:
        """The facts of the workspace, read once; raises NotFoundError if it does not exist."""
        return WorkspaceInfo.from_wire(self.request_json(self.request("GET")))

    @cached_property
    def history_url(self) -> str:
        """The address of the workspace's run history, requested once."""
        url = self.workspace.discovery_url or f"https://{self.workspace.location}.api.azureml.ms/discovery"
        with self.translated_errors():
            response = self._open_request("GET", url)
            discovery = arm_protocol.parse_object(response.text(), url, self.hints)
        return str(discovery.get("history") or discovery.get("api") or "").rstrip("/")

    def history_json(self, path: str) -> Mapping[str, Any]:
        """The JSON of the run history at a path below the workspace, such as `runs/resnet/details`.

        Raises:
            NotFoundError: There is no such run.
        """
        url = f"{self.history_url}/history/v1.0{self.address.path}/{path}"
        response = self.send(ArmRequest("GET", url, version=""))
        return arm_protocol.parse_object(response.text(), url, self.hints)

    def send(self, request: ArmRequest, *, is_streamed: bool = False) -> HttpResponse:
        """The response to a request, or raises the error in it; a refused token is renewed once."""
        try:
            return super().send(request, is_streamed=is_streamed)
        except ServiceError as error:
            if error.code not in _EXPIRED_TOKENS:
                raise
        return super().send(request, is_streamed=is_streamed)

    def token(self, scope: str) -> str:
        """A token of the user for another service."""
        with self.translated_errors():
            return str(self._credential.get_token(scope).token)

    def storage_headers(self) -> dict[str, str]:
        """The headers that authorize requests to blobs by the user's own token."""
        return {"Authorization": f"Bearer {self.token(_STORAGE_SCOPE)}"}

    def read_text(self, url: str, headers: Mapping[str, str]) -> str:
        """The text of a response of the storage.

        Raises:
            ServiceError: The storage refuses the request.
            UnreachableError: The storage does not respond.
        """
        return str(self._storage_response("GET", url, headers).text())

    def read_blob(
        self, url: str, offset: int, limit: int, authorization: Mapping[str, str] | None = None
    ) -> BlobRange | None:
        """At most `limit` bytes of a blob from `offset`, in one request; None if the blob does not exist.

        Raises:
            StorageError: The signed address has expired (code `SasExpired`).
            UnreachableError: The storage does not respond.
        """
        byte_range = f"bytes={offset}-{offset + max(1, limit) - 1}"
        headers = {"x-ms-range": byte_range, **(authorization or {})}
        response = self._storage_response("GET", url, headers, expected=(403, 404, 416))
        status, data = response.status_code, response.content
        if status == 416:  # at or past the end
            return _blob_range(response, b"", offset)
        if status == 404:
            return None
        if status == 403:
            text = f"the address of {urlsplit(url).path.rpartition('/')[2]} has expired"
            raise StorageError(text, code=EXPIRED, hint="Ask for it again.")
        if status == 206:
            return _blob_range(response, data, offset + len(data))
        return _blob_range(response, data[offset : offset + limit], len(data))

    def write_blob(self, url: str, data: bytes) -> None:
        """Stores a block blob at a signed address; repeatable."""
        self._storage_response("PUT", url, {"x-ms-blob-type": "BlockBlob"}, content=data)

    def _storage_response(
        self, method: str, url: str, headers: Mapping[str, str], *, expected: Sequence[int] = (), **more: Any
    ) -> Any:
        """The response of the storage; raises its error unless its status is an expected one."""
        headers = {"x-ms-version": _STORAGE_VERSION, **headers}
        with self.translated_errors():
            response = self._open_request(method, url, headers=headers, **more)
            if response.status_code >= 400 and response.status_code not in expected:
                code = response.headers.get("x-ms-error-code", "")
                raise arm_protocol.storage_error(response.status_code, response.text(), code)
            return response

    def close(self) -> None:
        """Closes the clients."""
        super().close()
        if "_open_client" in vars(self):
            self._open_client.close()
            del self._open_client

    def _open_request(self, method: str, url: str, **more: Any) -> Any:
        """The response to a request that carries no token."""
        from azure.core.rest import HttpRequest

        return self._open_client.send_request(HttpRequest(method, url, **more))

    @cached_property
    def _open_client(self) -> PipelineClient[Any, Any]:
        from azure.core import PipelineClient
        from azure.core.pipeline.policies import RetryPolicy, UserAgentPolicy

        # the default policies would also decode what is downloaded
        policies = [UserAgentPolicy(USER_AGENT), RetryPolicy(**TIMING)]
        return PipelineClient(self.url, policies=policies, transport=self._transport())

    def _transport(self) -> RequestsTransport:
        return bounded_transport(
            connection_timeout=self.settings.connect_s, read_timeout=self.settings.answer_s
        )

    def _make_client(self) -> ResourceManagementClient:
        from azure.mgmt.resource.resources import ResourceManagementClient

        return ResourceManagementClient(
            credential=self._credential,
            subscription_id=self.address.subscription,
            base_url=self.url,
            credential_scopes=[f"{self.url}/.default"],
            user_agent=USER_AGENT,
            transport=self._transport(),
            **TIMING,
        )


def _blob_range(response: Any, data: bytes, size: int) -> BlobRange:
    """The bytes with the facts in the headers; without a total in Content-Range, the size is `size`."""
    headers = response.headers
    total = _TOTAL.search(headers.get("Content-Range", ""))
    modified = headers.get("Last-Modified")
    return BlobRange(
        data,
        int(total[1]) if total else size,
        headers.get("ETag", ""),
        parsedate_to_datetime(modified) if modified else None,
    )


class SignIn:
    """A credential for Azure's libraries: the first of theirs that works, else a device code.

    The libraries renew tokens before they expire, without another sign-in. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._chosen: TokenCredential | None = None

    def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        """A token for these scopes; raises the library's error without any credential or prompt."""
        with self._lock:
            if self._chosen is None:
                return self._first_token(*scopes, **options)
        return self._chosen.get_token(*scopes, **options)

    def _first_token(self, *scopes: str, **options: Any) -> AccessToken:
        from azure.core.exceptions import ClientAuthenticationError
        from azure.identity import DefaultAzureCredential, DeviceCodeCredential

        logging.getLogger("azure.identity").setLevel(logging.ERROR)  # its warning has eleven lines
        candidate: TokenCredential = DefaultAzureCredential(transport=bounded_transport())
        try:
            token = candidate.get_token(*scopes, **options)
        except ClientAuthenticationError as error:
            prompt = PROMPT.get()
            if sign_in_failure(str(error)) or prompt is None:
                raise

            def ask(address: str, code: str, expires: datetime) -> None:
                prompt(f"To sign in to Azure, open {address} and enter the code {code}.")

            candidate = DeviceCodeCredential(prompt_callback=ask, transport=bounded_transport())
            token = candidate.get_token(*scopes, **options)
        self._chosen = candidate
        return token


@cache
def shared_sign_in() -> SignIn:
    """The sign-in of all backends of this process, so that nobody has to enter a second code."""
    return SignIn()
