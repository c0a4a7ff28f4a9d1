"""The server: its validated address, credentials for it, the connection, and resources in requests."""

from __future__ import annotations

import ipaddress
import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, quote, urlsplit

from batchai_magics.backends.arm.settings import ArmSettings
from batchai_magics.backends.azure.arm_client import TIMING, USER_AGENT, ArmClient
from batchai_magics.backends.azure.arm_protocol import OWN_SERVER
from batchai_magics.backends.azure.bounded_transport import bounded_transport
from batchai_magics.backends.service.extension_wire import OWN_CLIENT, PREFER, prefer_wait
from batchai_magics.errors import ServiceError, UsageError
from batchai_magics.models.file_server import FileServer
from batchai_magics.models.resource_ids import PROVIDER, Kind, ResourceId
from batchai_magics.models.resources import Cluster, Experiment, JobResource, Resource, Workspace

if TYPE_CHECKING:
    from azure.core.credentials import AccessToken
    from azure.mgmt.resource.resources import ResourceManagementClient


_CERTIFICATES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_HOW = (
    "Give one with `%batchai use --backend arm --endpoint URL`, BATCHAI_ENDPOINT or the configuration file."
)
_TOKEN_LIFE_S = 24 * 3600
_OPERATION_WAIT_S = 10.0


@dataclass(frozen=True)
class Endpoint:
    """A validated address of a server, with the settings of its connection."""

    url: str
    settings: ArmSettings = field(repr=False)

    @classmethod
    def of(cls, settings: ArmSettings) -> Endpoint:
        """The endpoint of the settings.

        Raises:
            UsageError: It is missing or invalid, or the token would travel unencrypted.
        """
        url = settings.endpoint.strip().rstrip("/")
        if not url:
            raise UsageError("the arm backend has no endpoint", hint=_HOW)
        parts = _parts(url)
        if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
            hint = "Use https there, or a tunnel: ssh -L 10000:127.0.0.1:10000 HOST"
            text = f"the endpoint {url} is plain http: its token would go over the network for all to read"
            raise UsageError(text, hint=hint)
        if settings.authority and not Path(settings.authority).expanduser().is_file():
            raise UsageError(f"setting arm.authority: {settings.authority} does not exist")
        return cls(url, settings)

    @property
    def host(self) -> str:
        """The host name, without the port."""
        return urlsplit(self.url).hostname or ""

    def transport(self) -> dict[str, Any]:
        """The transport options of Azure's clients: timeouts, trusted certificates, proxies."""
        settings = self.settings
        from_variable = next((os.environ[name] for name in _CERTIFICATES if os.environ.get(name)), "")
        authority = str(Path(settings.authority).expanduser()) if settings.authority else from_variable
        return {
            "connection_timeout": settings.connect_s,
            "read_timeout": settings.answer_s,
            "connection_verify": authority or True,
            "use_env_settings": not is_loopback(self.host),  # loopback addresses bypass proxies
        }


def is_loopback(host: str) -> bool:
    """Whether a host name or address is a loopback one."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        is_whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_whole = False
    if not is_whole or parts.username or parts.query or parts.fragment:
        raise UsageError(f"{url!r} is not an endpoint", hint="Write it as https://HOST:PORT.")
    return parts


class StaticToken:
    """A configured token as a credential of Azure's libraries."""

    def __init__(self, token: str) -> None:
        self._token = token

    def get_token(self, *scopes: str, **more: Any) -> AccessToken:
        """The token, valid for a day, after which the library calls this again."""
        from azure.core.credentials import AccessToken

        return AccessToken(self._token, int(time.time()) + _TOKEN_LIFE_S)


def credentials(endpoint: Endpoint) -> dict[str, Any]:
    """The authentication options of Azure's clients for the endpoint.

    Azure's tokens are scoped to the endpoint, so no other service accepts them, and are never sent over http.

    Raises:
        ServiceError: There is no token, and one of Azure cannot be sent.
    """
    if endpoint.settings.token:
        token = StaticToken(endpoint.settings.token)
        return {"credential": token, "authentication_policy": _static_policy(endpoint)}
    if urlsplit(endpoint.url).scheme == "http":
        text = f"there is no token for {endpoint.url}"
        raise ServiceError(text, code="NoCredentials", hint=OWN_SERVER.credentials)
    from azure.identity import DefaultAzureCredential

    logging.getLogger("azure.identity").setLevel(logging.ERROR)  # its warning has eleven lines
    credential = DefaultAzureCredential(transport=bounded_transport())
    return {"credential": credential, "credential_scopes": [f"{endpoint.url}/.default"]}


def _static_policy(endpoint: Endpoint) -> Any:
    """A policy that adds the token to requests to the endpoint, never to those to other hosts.

    Azure's own policy refuses plain http even on loopback.
    """
    from azure.core.pipeline.policies import SansIOHTTPPolicy

    class Bearer(SansIOHTTPPolicy[Any, Any]):
        def on_request(self, request: Any) -> None:
            if request.http_request.url.startswith((f"{endpoint.url}/", f"{endpoint.url}?")):
                request.http_request.headers["Authorization"] = f"Bearer {endpoint.settings.token}"

    return Bearer()


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
    request = pipeline_request.http_request
    request.headers[OWN_CLIENT] = "1"
    if request.method == "GET" and "/operationresults/" in request.url.lower():
        request.headers[PREFER] = prefer_wait(_OPERATION_WAIT_S)


def resource_path(id: ResourceId, action: str = "") -> str:
    """The path of a resource, or of an action on it."""
    path = quote(str(id), safe="/()")
    return f"{path}/{action}" if action else path


def provider_path(subscription: str, rest: str) -> str:
    """A path below the provider in a subscription."""
    return f"/subscriptions/{quote(subscription)}/providers/{PROVIDER}/{rest}"


def collection_path(parent: ResourceId, kind: Kind) -> str:
    """The path that lists a kind of resource in `parent`; workspaces are listed by resource group."""
    if kind is Kind.WORKSPACE:
        group = f"/subscriptions/{quote(parent.subscription)}/resourceGroups/{quote(parent.group)}"
        return f"{group}/providers/{PROVIDER}/workspaces"
    return resource_path(parent, kind.value)


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
