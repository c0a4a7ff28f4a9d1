"""JSON values by resource key, such as `/subscriptions/…` or `file/account/share/path`, in a file."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

from batchai_magics.backends.folders.private_files import append, write


class KeyJournal:
    """The values of a server by resource key: an append-only file, compacted when it is opened.

    Keys of what is inside a resource start with its key and a `/`. Thread-safe; hold `lock` for more than
    one call.
    """

    def __init__(self, file: Path) -> None:
        self.lock = threading.RLock()
        self._file = file
        self._values = _read(file)
        if file.exists():
            write(file, "".join(_line(key, value) for key, value in self._values.items()))

    def get(self, key: str) -> Any:
        """The value of a key, None without one."""
        return self._values.get(key)

    def inside(self, key: str) -> dict[str, Any]:
        """The values of a resource and of everything inside it, by key."""
        with self.lock:
            return {known: value for known, value in self._values.items() if _is_inside(known, key)}

    def put(self, key: str, value: Any) -> None:
        """Replaces the value of a key; None removes it."""
        with self.lock:
            if value == self.get(key):
                return
            append(self._file, _line(key, value))
            if value is None:
                del self._values[key]
            else:
                self._values[key] = value

    def forget(self, key: str) -> None:
        """Removes the values of a resource and of everything inside it."""
        with self.lock:
            for known in self.inside(key):
                self.put(known, None)


def _is_inside(key: str, holder: str) -> bool:
    return key == holder or key.startswith(f"{holder}/")


def _line(key: str, value: Any) -> str:
    return json.dumps([key, value]) + "\n"


def _read(file: Path) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else []:
        try:
            key, value = json.loads(line)
            values[key] = value
        except (ValueError, TypeError):  # a line cut off by a kill
            continue
    return {key: value for key, value in values.items() if value is not None}
