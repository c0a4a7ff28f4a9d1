"""Who may access what: bearer tokens, accepted host names, and the owners of resources."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path

from batchai_magics.backends.base import Ownership
from batchai_magics.backends.folders.private_files import write
from batchai_magics.errors import NotFoundError, UsageError, quoted
from batchai_magics.models.wire_times import wire_time
from batchai_magics.server.api_call import ApiError, User
from batchai_magics.server.key_journal import KeyJournal
from batchai_magics.server.storage.storage_resource import is_storage_host

LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Authenticator:
    """Checks host names and bearer tokens: the administrator's and users'.

    `users` returns the users' token digests with their names. It is called for every request, so removing
    a user takes effect at once.
    """

    def __init__(
        self, token: str, names: Collection[str], users: Callable[[], Mapping[str, str]] = dict
    ) -> None:
        self._admin_digest = token_digest(token)
        self._names = {name.lower() for name in (*LOOPBACK, *names)}
        self._users = users

    def accepts_host(self, header: str) -> bool:
        """Whether a `Host` header names this server; guards against DNS rebinding from web pages."""
        host = header[1:].partition("]") if header.startswith("[") else header.partition(":")
        name = host[0].lower()
        return name in self._names or is_storage_host(name)

    def authenticate(self, authorization: str) -> User:
        """The user whose token is in `Authorization: Bearer …`.

        Raises ApiError (401) for a missing or unknown token.
        """
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            message = "Authentication failed. The 'Authorization' header is missing."
            raise ApiError(401, "AuthenticationFailed", message)
        digest = token_digest(token.strip())
        if hmac.compare_digest(digest, self._admin_digest):
            return User("admin", is_admin=True)
        for known, name in self._users().items():
            if hmac.compare_digest(digest, known):
                return User(name)
        raise ApiError(401, "InvalidAuthenticationToken", "The access token is invalid.")


def token_digest(token: str) -> str:
    """The stored form of a token. Tokens are long and random, so SHA-256 suffices."""
    return hashlib.sha256(token.encode()).hexdigest()


_NAME = re.compile(r"[\w.@-]{1,64}", re.ASCII)
_RESERVED_NAMES = ("admin",)


class Users:
    """The users of a server besides the administrator, in a file that is reloaded when it changes."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._file_version: tuple[int, int] | None = None
        self._tokens: Mapping[str, str] = {}

    def add(self, name: str) -> str:
        """Adds a user and returns the token, which is not stored.

        Raises UsageError for an invalid name, or one that exists in any letter case.
        """
        if not _NAME.fullmatch(name):
            raise UsageError(f"{name!r} is not a user name", hint="Use letters, digits and . _ - @")
        users = self._load()
        same = next((known for known in (*users, *_RESERVED_NAMES) if known.lower() == name.lower()), None)
        if same:
            hint = "Names differ by more than letter case. Remove that user first: the old token ends then."
            raise UsageError(f"there is a user {same} already", hint=hint)
        token = secrets.token_urlsafe(32)
        added = wire_time(datetime.now(timezone.utc))
        self._save({**users, name: {"sha256": token_digest(token), "added": added}})
        return token

    def remove(self, name: str) -> None:
        """Removes a user; their resources stay. Raises NotFoundError for an unknown one."""
        users = self._load()
        if name not in users:
            known = ", ".join(users) or "none"
            raise NotFoundError(f"there is no user {name}", code="UserNotFound", hint=f"Users: {known}.")
        self._save({known: user for known, user in users.items() if known != name})

    def added(self) -> Mapping[str, str]:
        """The users, each with the time they were added."""
        return {name: user["added"] for name, user in self._load().items()}

    def tokens(self) -> Mapping[str, str]:
        """The token digests, each with its user's name."""
        try:
            status = self._file.stat()
            version = status.st_mtime_ns, status.st_ino
        except FileNotFoundError:
            version = None
        if version != self._file_version:
            self._tokens = {user["sha256"]: name for name, user in self._load().items()}
            self._file_version = version
        return self._tokens

    def _load(self) -> dict[str, dict[str, str]]:
        try:
            users = json.loads(self._file.read_text(encoding="utf-8"))
            if not isinstance(users, dict):
                raise ValueError("it holds no object of users")
            for name, user in users.items():
                texts = [user.get(key) for key in ("sha256", "added")] if isinstance(user, dict) else [None]
                if not all(isinstance(text, str) for text in texts):
                    raise ValueError(f"the user {quoted(name)} has no `sha256` and `added`")
            return users
        except FileNotFoundError:
            return {}
        except (ValueError, RecursionError) as error:
            hint = "Mend it, or delete it and add the users again."
            raise UsageError(f"{self._file} cannot be read: {error}", hint=hint) from error

    def _save(self, users: Mapping[str, Mapping[str, str]]) -> None:
        write(self._file, json.dumps(users, indent=1) + "\n")


UNKNOWN_OWNER = "the administrator"


class Owners:
    """The owner of each resource, by resource key; unknown owners count as the administrator.

    A backend with `ownership` records the owners of its resources. The journal holds the others: groups,
    accounts, and everything in front of other backends.
    """

    def __init__(self, file: Path, ownership: Ownership | None = None) -> None:
        self._journal = KeyJournal(file, lambda owner: isinstance(owner, str))
        self._ownership = ownership

    @contextlib.contextmanager
    def record_creation(self, key: str, user: str) -> Iterator[None]:
        """Records the owner before the block creates the resource, so that a crash cannot come between.

        If creation fails, the previous owner is restored.
        """
        with self._journal.lock:
            previous = self._journal.get(key)
            self.record(key, user)
            try:
                yield
            except BaseException:
                self._journal.put(key, previous)
                raise

    def record(self, key: str, user: str) -> None:
        """Records the owner of a resource."""
        self._journal.put(key, user)

    def forget(self, key: str) -> None:
        """Removes a deleted resource and everything inside it."""
        self._journal.forget(key)

    def of(self, key: str) -> str:
        """The owner of a resource."""
        recorded = self._ownership.owners(key).get(key) if self._ownership else None
        return recorded or self._journal.get(key) or UNKNOWN_OWNER

    def first_foreign(self, user: str, key: str) -> tuple[str, str] | None:
        """A resource of another user and its owner: this one or one inside it; None if all are the user's."""
        recorded = self._ownership.owners(key) if self._ownership else {}
        owners: dict[str, str] = {**self._journal.subtree(key), **recorded}
        if owners.get(key, UNKNOWN_OWNER) != user:
            return key, owners.get(key, UNKNOWN_OWNER)
        return next(((known, owner) for known, owner in owners.items() if owner != user), None)
