"""The connection to the far side: azure-mgmt-resource, with retries and times that a person can wait for."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from batchai_magics.backends.arm import answers
from batchai_magics.backends.arm.credentials import credentials
from batchai_magics.backends.arm.endpoint import Endpoint
from batchai_magics.backends.arm.paths import Question
from batchai_magics.backends.service.extensions.extension_headers import AS_MADE, OWN_CLIENT, PREFER, waiting
from batchai_magics.errors import BatchAIError

if TYPE_CHECKING:
    from azure.core.rest import HttpResponse
    from azure.mgmt.resource.resources import ResourceManagementClient

# The defaults retry for minutes and ask every 30 s how an operation stands.
_PATIENCE: Mapping[str, Any] = {
    "retry_total": 3,
    "retry_connect": 1,
    "retry_read": 2,
    "retry_backoff_factor": 0.3,
    "retry_backoff_max": 5,
    "polling_interval": 2,
}
_OPERATION_WAIT_S = 10.0
USER_AGENT = "batchai-magics"


class Connection:
    """Questions go out, JSON comes back; every error is one of ours. Threads may share it."""

    def __init__(self, endpoint: Endpoint, subscription: str) -> None:
        self.endpoint, self.subscription = endpoint, subscription
        self._lock = threading.Lock()
        self._client: ResourceManagementClient | None = None

    @property
    def client(self) -> ResourceManagementClient:
        """The client of Azure's library, made when it is first needed: that takes a third of a second."""
        with self._lock:
            if self._client is None:
                self._client = self._made()
            return self._client

    def ask(self, question: Question) -> Mapping[str, Any]:
        """The JSON object that answers a question; an empty one where nothing but a status comes."""
        return answers.object_of(self.send(question).text(), self.endpoint.url)

    def send(self, question: Question, *, is_streamed: bool = False) -> HttpResponse:
        """The answer to a question, if it is well; with `is_streamed` its bytes are still to come."""
        from azure.core.rest import HttpRequest

        request = HttpRequest(
            question.method,
            question.path,
            params=question.params,
            headers=dict(question.headers),
            json=question.body,
            content=question.content,
        )
        with self.translated():
            tries = {"retry_total": 0} if question.is_asked_again else {}
            response = self.client.send_request(request, stream=is_streamed, **tries)
            if response.status_code >= 400:
                text = (response.read() and response.text()) if is_streamed else response.text()
                raise answers.refused(response.status_code, text or "", self.endpoint.url)
        return response

    def make(self, question: Question) -> Mapping[str, Any]:
        """Makes a resource, and waits until the service has; gives its JSON."""
        with self.translated():
            poller = self.client.resources.begin_create_or_update_by_id(
                resource_id=question.path,
                api_version=question.version,
                parameters=dict(question.body or {}),
                headers={PREFER: AS_MADE},
                cls=lambda response, *_: response.http_response.text(),
            )
            return answers.object_of(str(poller.result()), self.endpoint.url)

    def remove(self, question: Question) -> None:
        """Deletes a resource, and waits until it is gone."""
        with self.translated():
            self.client.resources.begin_delete_by_id(
                resource_id=question.path, api_version=question.version
            ).result()

    @contextlib.contextmanager
    def translated(self) -> Iterator[None]:
        """Makes what Azure's libraries raise an error of ours."""
        from azure.core.exceptions import (
            AzureError,
            ClientAuthenticationError,
            HttpResponseError,
        )

        url = self.endpoint.url
        try:
            yield
        except BatchAIError:
            raise
        except HttpResponseError as error:
            response: Any = error.response
            if response is not None:
                raise answers.refused(response.status_code, response.text(), url) from error
            if isinstance(error, ClientAuthenticationError):
                raise answers.no_credentials() from None
            raise answers.unreachable(url, str(error)) from error
        except AzureError as error:
            raise answers.unreachable(url, str(error)) from error

    def close(self) -> None:
        """Closes what is open."""
        with self._lock:
            if self._client is not None:
                self._client.close()
            self._client = None

    def _made(self) -> ResourceManagementClient:
        from azure.mgmt.resource.resources import ResourceManagementClient

        return ResourceManagementClient(
            subscription_id=self.subscription,
            base_url=self.endpoint.url,
            user_agent=USER_AGENT,
            raw_request_hook=_as_our_own,
            **credentials(self.endpoint),
            **self.endpoint.transport(),
            **_PATIENCE,
        )


def _as_our_own(request: Any) -> None:
    """Asks our own server for all that it knows, and lets it wait for the end of an operation."""
    sent = request.http_request
    sent.headers[OWN_CLIENT] = "1"
    if sent.method == "GET" and "/operationresults/" in sent.url.lower():
        sent.headers[PREFER] = waiting(_OPERATION_WAIT_S)
