"""Logs for those who may not know a job's secrets: everybody but its owner reads asterisks in their place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from batchai_magics.backends.base import Chunk, FileRef
from batchai_magics.errors import BatchAIError
from batchai_magics.models.execution import STDOUTERR
from batchai_magics.models.ids import ResourceId
from batchai_magics.models.resources import JobResource
from batchai_magics.server.batchai.output import file_at
from batchai_magics.server.call import Call
from batchai_magics.server.service import Service

_NUMBER_PARTS = 2  # of a generation; what follows them is a digest of the first bytes
Mask = Callable[[int, bytes], bytes]  # an offset and the bytes from there; gives as many bytes


def for_caller(service: Service, call: Call, job: ResourceId) -> Callable[[Chunk], Chunk]:
    """What makes of a piece of a job's file what the caller may read of it."""
    if service.is_owner(call, job.key) or not _has_secrets(service, job):
        return lambda chunk: chunk
    return _masked


def for_anybody(service: Service, path: str) -> Mask | None:
    """What masks the bytes of a file on a share or at a job's address; None for all but logs with secrets.

    Neither the key of an account nor an address says who reads by it.
    """
    file = file_at(service, path)
    if file is None or file.directory_id != STDOUTERR or not _has_secrets(service, file.job):
        return None
    return lambda offset, data: _shown(service, file, offset, data)


def _shown(service: Service, file: FileRef, offset: int, data: bytes) -> bytes:
    """The bytes of a log with asterisks where its job printed a secret."""
    chunk = service.backend.read(file, offset, len(data))
    return replace(chunk, data=data, offset=offset).shown.data


def _masked(chunk: Chunk) -> Chunk:
    """Neither the values nor a digest of them, by which they could be guessed."""
    number = "-".join(chunk.generation.split("-")[:_NUMBER_PARTS])
    return replace(chunk.shown, seal=None, generation=number)


def _has_secrets(service: Service, job: ResourceId) -> bool:
    try:
        found = service.backend.show(job)
    except BatchAIError:  # who reads its file is told so
        return False
    return isinstance(found, JobResource) and bool(found.spec.secrets)
