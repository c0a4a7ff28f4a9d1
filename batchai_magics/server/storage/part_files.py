"""Files that are not whole yet: each beside the one that it will be, and noted: none is left for ever."""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
import uuid
from pathlib import Path, PurePosixPath

from batchai_magics.backends.base import CONTAINERS, STORAGE, Backend, Storage
from batchai_magics.backends.base.transfers import STALE_S
from batchai_magics.backends.service.private_files import write
from batchai_magics.errors import BatchAIError, NotFoundError

_PREFIX = ".part-"
_NAME = re.compile(rf"{re.escape(_PREFIX)}[0-9a-f]{{32}}")


def is_part(path: str) -> bool:
    """Whether a file is one that is not whole yet: no listing shows it."""
    return _NAME.fullmatch(PurePosixPath(path).name) is not None


class PartFiles:
    """Notes below a folder, one for each file that was begun; those that a server has left are swept."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def begin(self, service: str, share: str, path: str) -> str:
        """The place of a new file until it is whole; nobody else has its name."""
        name = uuid.uuid4().hex
        part = str(PurePosixPath(path).with_name(f"{_PREFIX}{name}"))
        note = {"service": service, "share": share, "path": part, "pid": os.getpid()}
        write(self._folder / f"{name}.json", json.dumps(note))
        return part

    def end(self, part: str) -> None:
        """Forgets one that is in its place now, or deleted."""
        name = PurePosixPath(part).name.removeprefix(_PREFIX)
        (self._folder / f"{name}.json").unlink(missing_ok=True)

    def sweep(self, backend: Backend) -> None:
        """Deletes what a server that is gone has begun, and what has not grown for a day."""
        for note in self._folder.glob("*.json") if self._folder.exists() else ():
            with contextlib.suppress(BatchAIError, ValueError, KeyError):  # its share may be gone
                told = json.loads(note.read_text(encoding="utf-8"))
                storage: Storage = (CONTAINERS if told["service"] == "blob" else STORAGE).of(backend)
                share, part = told["share"], told["path"]
                if _is_running(int(told["pid"])) and not _is_stale(storage, share, part):
                    continue
                storage.delete(share, part)
            note.unlink(missing_ok=True)


def _is_running(pid: int) -> bool:
    """Whether the server that wrote a note may still go on with it, as another one on the same home."""
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def _is_stale(storage: Storage, share: str, part: str) -> bool:
    """Whether nobody sends the rest any more: another process may have the number of the one that began."""
    try:
        modified = storage.show(share, part).modified
    except NotFoundError:  # it is about to be made
        return False
    return modified is not None and modified.timestamp() < time.time() - STALE_S
