"""The users of a server: names and their tokens, hashed, in a file that is read anew when it has changed."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path

from batchai_magics.backends.service.private_files import write
from batchai_magics.errors import NotFoundError, UsageError, quoted
from batchai_magics.models.times import wire_time
from batchai_magics.server.access.gate import digest

_NAME = re.compile(r"[\w.@-]{1,64}", re.ASCII)
_TAKEN = ("admin",)


class Users:
    """Who may come in beside the administrator."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._read_at: tuple[int, int] | None = None
        self._tokens: Mapping[str, str] = {}

    def add(self, name: str) -> str:
        """A new user; gives the token, which is kept nowhere. UsageError for a name that is taken."""
        if not _NAME.fullmatch(name):
            raise UsageError(f"{name!r} is no user's name", hint="Use letters, digits and . _ - @")
        users = self._load()
        taken = next((known for known in (*users, *_TAKEN) if known.lower() == name.lower()), None)
        if taken:
            hint = "Names differ by more than letter case. Remove that user first: the old token ends then."
            raise UsageError(f"there is a user {taken} already", hint=hint)
        token = secrets.token_urlsafe(32)
        added = wire_time(datetime.now(timezone.utc))
        self._save({**users, name: {"sha256": digest(token), "added": added}})
        return token

    def remove(self, name: str) -> None:
        """Lets a user in no more; what is theirs stays. NotFoundError for one that there is not."""
        users = self._load()
        if name not in users:
            known = ", ".join(users) or "none"
            raise NotFoundError(f"there is no user {name}", code="UserNotFound", hint=f"Users: {known}.")
        self._save({known: kept for known, kept in users.items() if known != name})

    def added(self) -> Mapping[str, str]:
        """The users, each with the time when they were added."""
        return {name: kept["added"] for name, kept in self._load().items()}

    def tokens(self) -> Mapping[str, str]:
        """The hashed tokens, each with its user's name; the file is read only when it has changed."""
        stamp = self._stamp()
        if stamp != self._read_at:
            self._tokens = {kept["sha256"]: name for name, kept in self._load().items()}
            self._read_at = stamp
        return self._tokens

    def _stamp(self) -> tuple[int, int] | None:
        try:
            found = self._file.stat()
        except FileNotFoundError:
            return None
        return found.st_mtime_ns, found.st_ino

    def _load(self) -> dict[str, dict[str, str]]:
        try:
            return _checked(json.loads(self._file.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return {}
        except (ValueError, RecursionError) as error:
            hint = "Mend it, or delete it and add the users again."
            raise UsageError(f"{self._file} cannot be read: {error}", hint=hint) from error

    def _save(self, users: Mapping[str, Mapping[str, str]]) -> None:
        write(self._file, json.dumps(users, indent=1) + "\n")


def _checked(data: object) -> dict[str, dict[str, str]]:
    """The users as they are written down; ValueError for anything else."""
    if not isinstance(data, dict):
        raise ValueError("it holds no object of users")
    for name, kept in data.items():
        texts = [kept.get(key) for key in ("sha256", "added")] if isinstance(kept, dict) else [None]
        if not all(isinstance(text, str) for text in texts):
            raise ValueError(f"the user {quoted(name)} has no `sha256` and `added`")
    return data
