"""Owners of resources: as the backend records them, or a journal of who created what, one JSON line each."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path

from batchai_magics.backends.base import Ownership
from batchai_magics.backends.service.private_files import append, write

UNKNOWN_OWNER = "the administrator"


class Owners:
    """The owner of each resource, by resource key; unknown owners count as the administrator.

    A backend with `ownership` records the owners of its resources. The journal holds the others: groups,
    accounts, and everything in front of other backends. It is append-only, and compacted at startup.
    """

    def __init__(self, file: Path, ownership: Ownership | None = None) -> None:
        self._file, self._ownership = file, ownership
        self._lock = threading.RLock()
        self._owners = _read(file)
        if file.exists():
            _compact(file, self._owners)

    @contextlib.contextmanager
    def record_creation(self, key: str, user: str) -> Iterator[None]:
        """Records the owner before the block creates the resource, so that a crash cannot come between.

        If creation fails, the previous owner is restored.
        """
        with self._lock:
            before = self._owners.get(key)
            self.record(key, user)
            try:
                yield
            except BaseException:
                self.record(key, before) if before else self.forget(key)
                raise

    def record(self, key: str, user: str) -> None:
        """Records the owner of a resource."""
        with self._lock:
            self._owners[key] = user
            self._append({"id": key, "user": user})

    def forget(self, key: str) -> None:
        """Removes a deleted resource and everything inside it."""
        with self._lock:
            gone = [known for known in self._owners if _is_inside(known, key)]
            for known in gone:
                del self._owners[known]
            if gone:
                self._append({"gone": key})

    def of(self, key: str) -> str:
        """The owner of a resource."""
        recorded = self._ownership.within(key).get(key) if self._ownership else None
        return recorded or self._owners.get(key, UNKNOWN_OWNER)

    def first_foreign(self, user: str, key: str) -> tuple[str, str] | None:
        """A resource of another user and its owner: this one or one inside it; None if all are the user's."""
        owners = self._within(key)
        if owners.get(key, UNKNOWN_OWNER) != user:
            return key, owners.get(key, UNKNOWN_OWNER)
        return next(((known, owner) for known, owner in owners.items() if owner != user), None)

    def _within(self, key: str) -> dict[str, str]:
        """The recorded owners of a resource and of everything inside it."""
        with self._lock:
            noted = {known: user for known, user in self._owners.items() if _is_inside(known, key)}
        return {**noted, **(self._ownership.within(key) if self._ownership else {})}

    def _append(self, line: dict[str, str]) -> None:
        append(self._file, json.dumps(line) + "\n")


def _is_inside(key: str, holder: str) -> bool:
    return key == holder or key.startswith(holder + "/")


def _read(file: Path) -> dict[str, str]:
    owners: dict[str, str] = {}
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    for text in lines:
        try:
            line = json.loads(text)
        except ValueError:  # a line cut off by a kill
            continue
        if "gone" in line:
            owners = {key: user for key, user in owners.items() if not _is_inside(key, line["gone"])}
        else:
            owners[line["id"]] = line["user"]
    return owners


def _compact(file: Path, owners: dict[str, str]) -> None:
    lines = [json.dumps({"id": key, "user": user}) + "\n" for key, user in owners.items()]
    write(file, "".join(lines))
