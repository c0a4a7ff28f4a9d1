"""Who we are to the far side: by a token of our own, or by what Azure knows of us."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from batchai_magics.backends.arm.endpoint import Endpoint

if TYPE_CHECKING:
    from azure.core.credentials import AccessToken

_LIFE_S = 24 * 3600


class StaticToken:
    """A token that somebody gave, as Azure's libraries want a credential to be."""

    def __init__(self, token: str) -> None:
        self._token = token

    def get_token(self, *scopes: str, **more: Any) -> AccessToken:
        """The token; it is asked for again a day later."""
        from azure.core.credentials import AccessToken

        return AccessToken(self._token, int(time.time()) + _LIFE_S)


def credentials(endpoint: Endpoint) -> dict[str, Any]:
    """What a client of Azure's libraries is made with to be let in at the endpoint.

    What Azure knows of us goes only to who may have it: the token is one for that very endpoint.
    """
    if endpoint.settings.token:
        token = StaticToken(endpoint.settings.token)
        return {"credential": token, "authentication_policy": _static_policy(endpoint)}
    from azure.identity import DefaultAzureCredential

    logging.getLogger("azure.identity").setLevel(logging.ERROR)  # it says in eleven lines that it has none
    return {"credential": DefaultAzureCredential(), "credential_scopes": [f"{endpoint.url}/.default"]}


def _static_policy(endpoint: Endpoint) -> Any:
    """What puts the token on requests to the endpoint, and on no other: redirects and links lead elsewhere.

    Azure's own policy refuses http, also to this machine itself.
    """
    from azure.core.pipeline.policies import SansIOHTTPPolicy

    class Bearer(SansIOHTTPPolicy[Any, Any]):
        def on_request(self, request: Any) -> None:
            if request.http_request.url.startswith((f"{endpoint.url}/", f"{endpoint.url}?")):
                request.http_request.headers["Authorization"] = f"Bearer {endpoint.settings.token}"

    return Bearer()
