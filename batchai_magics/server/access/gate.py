"""Who calls: by the token of a request, and only through a host name that is this server's."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Collection, Mapping

from batchai_magics.server.call import User
from batchai_magics.server.errors import refusal
from batchai_magics.server.storage.request import is_host

LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Gate:
    """The names that the server has, and the tokens that it knows, hashed: its own, and its users'.

    `users` gives the users' tokens, hashed, each with a name; it is asked each time, so that a user who is
    removed is out at once.
    """

    def __init__(
        self, token: str, names: Collection[str], users: Callable[[], Mapping[str, str]] = dict
    ) -> None:
        self._own = digest(token)
        self._names = {name.lower() for name in (*LOOPBACK, *names)}
        self._users = users

    def knows_host(self, header: str) -> bool:
        """Whether a header `Host` names this server; a page on another site cannot make a browser say it."""
        name = _without_port(header).lower()
        return name in self._names or is_host(name)

    def user_of(self, authorization: str) -> User:
        """Who has the token of a header `Authorization: Bearer …`; raises a refusal for anybody else."""
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            message = "Authentication failed. The 'Authorization' header is missing."
            raise refusal(401, "AuthenticationFailed", message)
        hashed = digest(token.strip())
        if hmac.compare_digest(hashed, self._own):
            return User("admin", is_admin=True)
        for known, name in self._users().items():
            if hmac.compare_digest(hashed, known):
                return User(name)
        raise refusal(401, "InvalidAuthenticationToken", "The access token is invalid.")


def digest(token: str) -> str:
    """What is kept of a token. It is random and long: nothing slower than SHA-256 is needed."""
    return hashlib.sha256(token.encode()).hexdigest()


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]
