"""Microsoft's sign-in: tokens that really expire, for programs with a secret and people with a code."""

from __future__ import annotations

import base64
import itertools
import json
import threading
import time
from typing import NamedTuple
from urllib.parse import parse_qs

from tests.azureml.http_messages import RefusedError, Request, Response, Routes, json_response

HOST = "login.microsoftonline.com"
TENANT = "11111111-2222-3333-4444-555555555555"
CLIENT_ID, CLIENT_SECRET = "22222222-3333-4444-5555-666666666666", "the secret of the service principal"
MANAGEMENT, STORAGE, ML = "management.azure.com", "storage.azure.com", "ml.azure.com"


class _Token(NamedTuple):
    scope: str
    expires_at: float


class AccessToken(NamedTuple):
    """What azure.core calls so: any client takes a tuple with these names."""

    token: str
    expires_on: int


class SignIn:
    """Tokens by their text. `token_life_s` is how long those given from now on are valid."""

    def __init__(self) -> None:
        self.token_life_s = 3600.0
        self.is_code_approved = False
        self._code_scope = ""
        self._tokens: dict[str, _Token] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self.routes = Routes("/{tenant}")
        self.routes.add("GET", "/v2.0/.well-known/openid-configuration", self._describe)
        self.routes.add("GET", "/discovery/instance", self._instances)
        self.routes.add("POST", "/oauth2/v2.0/token", self._token)
        self.routes.add("POST", "/oauth2/v2.0/devicecode", self._device_code)

    def issue(self, scope: str) -> AccessToken:
        """A new token for a scope, such as `https://management.azure.com/.default`."""
        with self._lock:
            text = f"token-{next(self._numbers)}"
            self._tokens[text] = _Token(scope, time.time() + self.token_life_s)
        return AccessToken(text, int(time.time() + self.token_life_s))

    def expire_all(self) -> None:
        """Every token given so far has expired."""
        with self._lock:
            self._tokens = {text: token._replace(expires_at=0.0) for text, token in self._tokens.items()}

    def check(self, request: Request, *audiences: str) -> None:
        """Refuses a request without a valid token for one of the audiences."""
        kind, _, text = request.headers.get("Authorization", "").partition(" ")
        token = self._tokens.get(text) if kind == "Bearer" else None
        challenge = 'Bearer authorization_uri="https://login.microsoftonline.com", error="invalid_token"'
        if token is None:
            message = "Authentication failed. The 'Authorization' header is missing or invalid."
            raise RefusedError(401, "AuthenticationFailed", message, WWW_Authenticate=challenge)
        if token.expires_at <= time.time():
            message = "The access token expiry UTC time is earlier than current UTC time."
            raise RefusedError(401, "ExpiredAuthenticationToken", message, WWW_Authenticate=challenge)
        if not any(audience in token.scope for audience in audiences):
            message = f"The access token has been obtained for the wrong audience {token.scope}."
            raise RefusedError(401, "InvalidAuthenticationTokenAudience", message, WWW_Authenticate=challenge)

    def answer(self, request: Request) -> Response:
        """The response to a request of this host."""
        return self.routes.answer(request) or json_response({"error": "invalid_request"}, 404)

    def _describe(self, request: Request, tenant: str) -> Response:
        base = f"https://{HOST}/{tenant}"
        return json_response(
            {
                "token_endpoint": f"{base}/oauth2/v2.0/token",
                "authorization_endpoint": f"{base}/oauth2/v2.0/authorize",
                "device_authorization_endpoint": f"{base}/oauth2/v2.0/devicecode",
                "issuer": f"{base}/v2.0",
            }
        )

    def _instances(self, request: Request, tenant: str) -> Response:
        url = f"https://{HOST}/{TENANT}/v2.0/.well-known/openid-configuration"
        names = {"preferred_network": HOST, "preferred_cache": HOST, "aliases": [HOST]}
        return json_response({"tenant_discovery_endpoint": url, "api-version": "1.1", "metadata": [names]})

    def _device_code(self, request: Request, tenant: str) -> Response:
        self._code_scope = parse_qs(request.body.decode())["scope"][0]  # the token is asked for without it
        page, code = "https://microsoft.com/devicelogin", "ABCD1234"
        message = f"To sign in, open the page {page} in a web browser and enter the code {code}."
        times = {"expires_in": 900, "interval": 1}
        return json_response(
            {
                "user_code": code,
                "device_code": "device",
                "verification_uri": page,
                "message": message,
                **times,
            }
        )

    def _token(self, request: Request, tenant: str) -> Response:
        form = {name: values[0] for name, values in parse_qs(request.body.decode()).items()}
        if form.get("grant_type") == "client_credentials" and form.get("client_secret") != CLIENT_SECRET:
            return json_response(
                {"error": "invalid_client", "error_description": "AADSTS7000215: wrong"}, 401
            )
        if form.get("device_code") and not self.is_code_approved:
            return json_response({"error": "authorization_pending", "error_description": "AADSTS70016"}, 400)
        token = self.issue(form.get("scope", self._code_scope))
        given = {"access_token": token.token, "token_type": "Bearer", "expires_in": int(self.token_life_s)}
        if "client_credentials" not in form.get("grant_type", ""):
            given |= {"refresh_token": "refresh", "scope": form.get("scope", ""), **_identity(form)}
        return json_response(given)


def _identity(form: dict[str, str]) -> dict[str, str]:
    """Who has signed in, as the library of a person's program wants to know."""
    now = int(time.time())
    who = {"oid": "person", "tid": TENANT, "sub": "person", "preferred_username": "ann@example.org"}
    claims = {**who, "aud": form.get("client_id"), "iss": f"https://{HOST}/{TENANT}/v2.0"}
    parts = [{"alg": "none"}, {**claims, "iat": now, "exp": now + 3600}]
    text = ".".join(_encoded(part) for part in parts) + "."
    return {"id_token": text, "client_info": _encoded({"uid": "person", "utid": TENANT})}


def _encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")
