"""The connection to the server through azure-mgmt-resource, and resources in requests and responses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from batchai_magics.backends.arm.endpoint import Endpoint, credentials
from batchai_magics.backends.azure.arm_client import TIMING, USER_AGENT, ArmClient
from batchai_magics.backends.azure.bounded_transport import bounded_transport
from batchai_magics.backends.base import Spec
from batchai_magics.backends.service.extension_wire import OWN_CLIENT, PREFER, prefer_wait
from batchai_magics.models.file_server import FileServer
from batchai_magics.models.resource_ids import PROVIDER, Kind, ResourceId
from batchai_magics.models.resources import Cluster, Experiment, JobResource, Resource, Workspace

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


def resource_path(id: ResourceId, action: str = "") -> str:
    """The path of a resource, or of an action on it."""
    path = quote(str(id), safe="/()")
    return f"{path}/{action}" if action else path


def provider_path(subscription: str, rest: str) -> str:
    """A path below the provider in a subscription."""
    return f"/subscriptions/{quote(subscription)}/providers/{PROVIDER}/{rest}"


def collection_path(parent: ResourceId, kind: Kind) -> str:
    """The path of the resources of a kind inside `parent`; for workspaces, those of its resource group."""
    if kind is Kind.WORKSPACE:
        group = f"/subscriptions/{quote(parent.subscription)}/resourceGroups/{quote(parent.group)}"
        return f"{group}/providers/{PROVIDER}/workspaces"
    return resource_path(parent, kind.value)


def request_body(spec: Spec) -> dict[str, Any]:
    """The JSON that creates a resource, secrets included."""
    return spec.to_wire(secrets=True)


_PARSERS: Mapping[Kind, Callable[[Mapping[str, Any]], Resource]] = {
    Kind.WORKSPACE: Workspace.from_wire,
    Kind.EXPERIMENT: Experiment.from_wire,
    Kind.CLUSTER: Cluster.from_wire,
    Kind.JOB: JobResource.from_wire,
    Kind.FILE_SERVER: FileServer.from_wire,
}


def parse_resource(data: Mapping[str, Any], kind: Kind) -> Resource:
    """The resource in a JSON object."""
    return _PARSERS[kind](data)


def parse_any_resource(data: Mapping[str, Any]) -> Resource:
    """The resource in a JSON object, of the kind in its id."""
    return parse_resource(data, ResourceId.parse(str(data.get("id"))).kind)
