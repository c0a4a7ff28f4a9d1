"""Where the far side is, and how it may be spoken to: checked before anything is sent."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from batchai_magics.backends.arm.settings import ArmSettings
from batchai_magics.errors import UsageError

_CERTIFICATES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_HOW = (
    "Give one with `%batchai use --backend arm --endpoint URL`, BATCHAI_ENDPOINT or the configuration file."
)


@dataclass(frozen=True)
class Endpoint:
    """An address that may be spoken to, with what opens it."""

    url: str
    settings: ArmSettings = field(repr=False)

    @classmethod
    def of(cls, settings: ArmSettings) -> Endpoint:
        """The endpoint of the settings; UsageError where a token would go in the clear, or nowhere."""
        url = settings.endpoint.strip().rstrip("/")
        if not url:
            raise UsageError("the arm backend has no endpoint", hint=_HOW)
        parts = _parts(url)
        if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
            hint = "Use https there, or a tunnel: ssh -L 10000:127.0.0.1:10000 HOST"
            text = f"the endpoint {url} is plain http: its token would go over the network for all to read"
            raise UsageError(text, hint=hint)
        if settings.authority and not Path(settings.authority).expanduser().is_file():
            raise UsageError(f"setting arm.authority: there is no file {settings.authority}")
        return cls(url, settings)

    @property
    def host(self) -> str:
        """The host's name, without its port."""
        return urlsplit(self.url).hostname or ""

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine."""
        return is_loopback(self.host)

    def transport(self) -> dict[str, Any]:
        """How the clients of Azure connect: for how long, and whom they trust."""
        settings = self.settings
        said = next((os.environ[name] for name in _CERTIFICATES if os.environ.get(name)), "")
        authority = str(Path(settings.authority).expanduser()) if settings.authority else said
        return {
            "connection_timeout": settings.connect_s,
            "read_timeout": settings.answer_s,
            "connection_verify": authority or True,
            "use_env_settings": not self.is_local,  # no proxy leads to this machine
        }


def is_loopback(host: str) -> bool:
    """Whether a host's name or address is this machine's own."""
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
        raise UsageError(f"{url!r} is no endpoint", hint="Write it as https://HOST:PORT.")
    return parts
