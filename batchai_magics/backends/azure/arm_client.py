"""Requests to Azure Resource Manager through azure-mgmt-resource: operations, paged lists, errors."""

from __future__ import annotations

import contextlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from batchai_magics.backends.azure import arm_protocol
from batchai_magics.backends.azure.arm_protocol import ArmRequest, Hints, link_query
from batchai_magics.backends.azure.bounded_transport import unbounded
from batchai_magics.backends.service.extension_wire import PREFER, REPRESENTATION
from batchai_magics.errors import BatchAIError

if TYPE_CHECKING:
    from azure.core.rest import HttpResponse
    from azure.mgmt.resource.resources import ResourceManagementClient


# The defaults retry for minutes and poll an operation every 30 s.
TIMING: Mapping[str, Any] = {
    "retry_total": 3,
    "retry_connect": 1,
    "retry_read": 2,
    "retry_backoff_factor": 0.3,
    "retry_backoff_max": 5,
    "polling_interval": 2,
}
USER_AGENT = "batchai-magics"


class ArmClient(ABC):
    """Sends requests and returns JSON; raises errors of `batchai_magics.errors` only. Thread-safe."""

    hints: Hints = arm_protocol.OWN_SERVER

    def __init__(self, url: str) -> None:
        self.url = url
        self._lock = threading.Lock()
        self._client: ResourceManagementClient | None = None

    @property
    def client(self) -> ResourceManagementClient:
        """The client of azure-mgmt-resource, created on first use: its import takes a third of a second."""
        with self._lock:
            if self._client is None:
                self._client = self._make_client()
            return self._client

    def request_json(self, request: ArmRequest) -> Mapping[str, Any]:
        """The JSON object of the response; empty if the response has no body."""
        return arm_protocol.parse_object(self.send(request).text(), self.url, self.hints)

    def send(self, request: ArmRequest, *, is_streamed: bool = False) -> HttpResponse:
        """The response to a request, or raises the error in it; with `is_streamed`, the body is not read."""
        from azure.core.rest import HttpRequest

        http_request = HttpRequest(
            request.method,
            request.path,
            params=request.params,
            headers=dict(request.headers),
            json=request.body,
            content=request.content,
        )
        with self.translated_errors():
            options: dict[str, Any] = {"retry_total": 0} if request.is_polled else {}
            options |= unbounded() if request.is_endless else {}
            response = self.client.send_request(http_request, stream=is_streamed, **options)
            if response.status_code >= 400:
                text = (response.read() and response.text()) if is_streamed else response.text()
                raise arm_protocol.arm_error(response.status_code, text or "", self.url, self.hints)
        return response

    def create(self, request: ArmRequest) -> Mapping[str, Any]:
        """Creates a resource, waits for the operation to end, and returns its JSON."""
        with self.translated_errors():
            poller = self.client.resources.begin_create_or_update_by_id(
                resource_id=request.path,
                api_version=request.version,
                parameters=dict(request.body or {}),
                headers={PREFER: REPRESENTATION},
                cls=lambda response, *_: response.http_response.text(),
            )
            return arm_protocol.parse_object(str(poller.result()), self.url, self.hints)

    def delete(self, request: ArmRequest) -> None:
        """Deletes a resource and waits for the operation to end."""
        with self.translated_errors():
            self.client.resources.begin_delete_by_id(
                resource_id=request.path, api_version=request.version
            ).result()

    @contextlib.contextmanager
    def translated_errors(self) -> Iterator[None]:
        """Translates the exceptions of Azure's libraries into ours."""
        from azure.core.exceptions import AzureError, ClientAuthenticationError, HttpResponseError

        url, hints = self.url, self.hints
        try:
            yield
        except BatchAIError:
            raise
        except HttpResponseError as error:
            response: Any = error.response
            if response is not None:
                raise arm_protocol.arm_error(response.status_code, response.text(), url, hints) from error
            if isinstance(error, ClientAuthenticationError):
                raise arm_protocol.sign_in_error(str(error), hints) from None
            raise arm_protocol.unreachable_error(url, str(error), hints) from error
        except (AzureError, OSError) as error:  # an OSError: the file of certificates is missing
            raise arm_protocol.unreachable_error(url, str(error), hints) from error

    def close(self) -> None:
        """Closes the client."""
        with self._lock:
            if self._client is not None:
                self._client.close()
            self._client = None

    @abstractmethod
    def _make_client(self) -> ResourceManagementClient:
        """The client of azure-mgmt-resource, with its credentials."""


_TOKEN = "$skiptoken"


@dataclass(frozen=True)
class JsonPage:
    """Items as JSON, and the token of the next page; empty on the last page."""

    items: Sequence[Mapping[str, Any]]
    next: str = ""


def list_items(client: ArmClient, request: ArmRequest, after: str = "") -> Iterator[Mapping[str, Any]]:
    """All items of a paged list."""
    for page in list_pages(client, request, after):
        yield from page.items


def list_pages(
    client: ArmClient, request: ArmRequest, after: str = "", size: int | None = None
) -> Iterator[JsonPage]:
    """The pages of a list from a token on, requested lazily."""
    limit = {"maxresults": str(size)} if size else {}
    while True:
        start = {_TOKEN: after} if after else {}
        page_request = replace(request, query={**request.query, **limit, **start})
        data = client.request_json(page_request)
        # Only the token of the next link is used: the link may name any host.
        query = {name.lower(): value for name, value in link_query(data.get("nextLink")).items()}
        page = JsonPage(
            [item for item in data.get("value") or () if isinstance(item, Mapping)], query.get(_TOKEN, "")
        )
        yield page
        if not page.next or page.next == after:
            return
        after = page.next
