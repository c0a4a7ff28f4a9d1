"""The connection to the server through azure-mgmt-resource."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from batchai_magics.backends.arm.endpoint import Endpoint, credentials
from batchai_magics.backends.azure.arm_client import TIMING, USER_AGENT, ArmClient
from batchai_magics.backends.azure.bounded_transport import bounded_transport
from batchai_magics.backends.service.extension_wire import OWN_CLIENT, PREFER, prefer_wait

if TYPE_CHECKING:
    from azure.mgmt.resource.resources import ResourceManagementClient

_OPERATION_WAIT_S = 10.0


class EndpointConnection(ArmClient):
    """Sends requests to the endpoint; see `ArmClient`."""

    def __init__(self, endpoint: Endpoint, subscription: str) -> None:
        super().__init__(endpoint.url)
        self.endpoint, self.subscription = endpoint, subscription

    def _make_client(self) -> ResourceManagementClient:
        from azure.mgmt.resource.resources import ResourceManagementClient

        return ResourceManagementClient(
            subscription_id=self.subscription,
            base_url=self.endpoint.url,
            user_agent=USER_AGENT,
            raw_request_hook=_add_extension_headers,
            **credentials(self.endpoint),
            transport=bounded_transport(**self.endpoint.transport()),
            **TIMING,
        )


def _add_extension_headers(pipeline_request: Any) -> None:
    """Asks `batchai serve` for extended responses and for long polling of operations; others ignore both."""
    sent = pipeline_request.http_request
    sent.headers[OWN_CLIENT] = "1"
    if sent.method == "GET" and "/operationresults/" in sent.url.lower():
        sent.headers[PREFER] = prefer_wait(_OPERATION_WAIT_S)
