"""What belongs to whom: a journal of who made what, one JSON line each."""

from __future__ import annotations

import json
import threading
from pathlib import Path

from batchai_magics.backends.service.private_files import append, write

NOBODY = "the administrator"


class Owners:
    """Who made which resource, by the resource's key; the administrator, where nobody is known to have.

    Kept in a file that only grows while a server runs, and is written anew when one starts.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._owners = _read(file)
        if file.exists():
            _write_anew(file, self._owners)

    def note(self, key: str, user: str) -> None:
        """Writes down who has made a resource."""
        with self._lock:
            self._owners[key] = user
            self._append({"id": key, "user": user})

    def forget(self, key: str) -> None:
        """Forgets a resource that is gone, and all that was inside it."""
        with self._lock:
            gone = [known for known in self._owners if _is_inside(known, key)]
            for known in gone:
                del self._owners[known]
            if gone:
                self._append({"gone": key})

    def of(self, key: str) -> str:
        """Who made a resource."""
        return self._owners.get(key, NOBODY)

    def foreign(self, user: str, key: str) -> tuple[str, str] | None:
        """A resource that is not the user's, with its owner: the one of this key, or one inside it."""
        with self._lock:
            if self.of(key) != user:
                return key, self.of(key)
            inside = (known for known in self._owners if _is_inside(known, key))
            other = next((known for known in inside if self._owners[known] != user), None)
            return (other, self._owners[other]) if other else None

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
        except ValueError:  # the last line of a server that was killed
            continue
        if "gone" in line:
            owners = {key: user for key, user in owners.items() if not _is_inside(key, line["gone"])}
        else:
            owners[line["id"]] = line["user"]
    return owners


def _write_anew(file: Path, owners: dict[str, str]) -> None:
    lines = [json.dumps({"id": key, "user": user}) + "\n" for key, user in owners.items()]
    write(file, "".join(lines))
