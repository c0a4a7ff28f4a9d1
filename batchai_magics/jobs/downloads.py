"""A file of a job becomes a file of this machine, whole or not at all."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import BinaryIO

from batchai_magics.backends.base import Backend, FileRef
from batchai_magics.errors import StorageError
from batchai_magics.jobs.logs import chunks, steadily, yield_all


def save(backend: Backend, file: FileRef, place: Path, *, partial: bool = False) -> None:
    """Writes a job's file to `place`, under a name that nothing else has until all of it is there.

    Nothing that lies beside it is touched. Raises StorageError when it cannot be written, and for a finished
    log that lacks something, unless it is wanted `partial`.
    """
    part = place.with_name(f".{place.name[:40]}.{uuid.uuid4().hex}.part")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            with part.open("xb") as target:
                steadily(lambda: _copy(backend, file, target, partial=partial))
            part.replace(place)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"{place} cannot be written: {error.strerror}", code="FileUnwritable") from error


def _copy(backend: Backend, file: FileRef, target: BinaryIO, *, partial: bool) -> None:
    target.seek(0)
    target.truncate()
    fault = yield_all(chunks(backend, file), lambda chunk: target.write(chunk.data))
    if fault and not partial:
        hint = "partial=True takes what is there."
        raise StorageError(f"{file.path} is not complete: {fault}", code="LogIncomplete", hint=hint)
