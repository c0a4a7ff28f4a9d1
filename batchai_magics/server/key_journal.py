"""JSON values by resource key, such as `/subscriptions/…` or `file/account/share/path`, in a file."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from batchai_magics.backends.folders.private_files import append, write
from batchai_magics.errors import StorageError


class KeyJournal:
    """The values of a server by resource key: an append-only file, compacted when it is opened.

    Keys of what is inside a resource start with its key and a `/`. Thread-safe; hold `lock` for more than one
    call. Raises StorageError for a file of another version, with values that are not `is_valid`: its owners
    and metadata would be lost silently.
    """

    def __init__(self, file: Path, is_valid: Callable[[Any], bool]) -> None:
        self.lock = threading.RLock()
        self._file = file
        values: dict[str, Any] = {}
        for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else []:
            try:
                entry = json.loads(line)
            except ValueError:  # cut off by a kill or a full disk
                continue
            match entry:
                case [str(key), value] if value is None or is_valid(value):
                    values[key] = value
                case _:
                    hint = (
                        "Start the version that wrote it, or move the file away: what it says of owners or"
                        " metadata is then forgotten."
                    )
                    raise StorageError(f"{file} was written by another version of batchai-magics", hint=hint)
        self._values = {key: value for key, value in values.items() if value is not None}
        if file.exists():
            write(file, "".join(_line(key, value) for key, value in self._values.items()))

    def get(self, key: str) -> Any:
        """The value of a key, None without one."""
        return self._values.get(key)

    def subtree(self, key: str) -> dict[str, Any]:
        """The values of a resource and of everything inside it, by key."""
        with self.lock:
            return {
                other: value
                for other, value in self._values.items()
                if other == key or other.startswith(f"{key}/")
            }

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
            for other in self.subtree(key):
                self.put(other, None)


def _line(key: str, value: Any) -> str:
    """A line of the file, after a line feed: a truncated line before it does not damage it."""
    return "\n" + json.dumps([key, value])
