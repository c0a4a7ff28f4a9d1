"""The address of the server, validated before anything is sent, and the credentials for it."""

from __future__ import annotations

import ipaddress
import logging
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

from batchai_magics.backends.arm.settings import ArmSettings
from batchai_magics.backends.azure.bounded_transport import bounded_transport
from batchai_magics.errors import UsageError

if TYPE_CHECKING:
    from azure.core.credentials import AccessToken


_CERTIFICATES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_HOW = (
    "Give one with `%batchai use --backend arm --endpoint URL`, BATCHAI_ENDPOINT or the configuration file."
)


@dataclass(frozen=True)
class Endpoint:
    """A validated address of a server, with the settings of its connection."""

    url: str
    settings: ArmSettings = field(repr=False)

    @classmethod
    def of(cls, settings: ArmSettings) -> Endpoint:
        """The endpoint of the settings; UsageError if missing or if the token would travel unencrypted."""
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

    @property
    def is_local(self) -> bool:
        """Whether it is a loopback address."""
        return is_loopback(self.host)

    def transport(self) -> dict[str, Any]:
        """The transport options of Azure's clients: timeouts, trusted certificates, proxies."""
        settings = self.settings
        said = next((os.environ[name] for name in _CERTIFICATES if os.environ.get(name)), "")
        authority = str(Path(settings.authority).expanduser()) if settings.authority else said
        return {
            "connection_timeout": settings.connect_s,
            "read_timeout": settings.answer_s,
            "connection_verify": authority or True,
            "use_env_settings": not self.is_local,  # loopback addresses bypass proxies
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


_LIFE_S = 24 * 3600


class StaticToken:
    """A configured token as a credential of Azure's libraries."""

    def __init__(self, token: str) -> None:
        self._token = token

    def get_token(self, *scopes: str, **more: Any) -> AccessToken:
        """The token, valid for a day: then the library asks again."""
        from azure.core.credentials import AccessToken

        return AccessToken(self._token, int(time.time()) + _LIFE_S)


def credentials(endpoint: Endpoint) -> dict[str, Any]:
    """The authentication options of Azure's clients for the endpoint.

    Azure's tokens are scoped to the endpoint, so no other service accepts them.
    """
    if endpoint.settings.token:
        token = StaticToken(endpoint.settings.token)
        return {"credential": token, "authentication_policy": _static_policy(endpoint)}
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
