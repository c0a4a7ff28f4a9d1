"""Small files that our own client sends and fetches many at once: a request for each would cost more."""

from __future__ import annotations

from batchai_magics.backends.base import CONTAINERS, STORAGE, Storage
from batchai_magics.backends.service import refusals
from batchai_magics.backends.service.dialect import packs
from batchai_magics.errors import NotFoundError
from batchai_magics.server.batchai import log_secrets
from batchai_magics.server.call import Answer, Call, invalid_content
from batchai_magics.server.service import Service
from batchai_magics.server.storage.context import WRITTEN, stamps
from batchai_magics.server.storage.metadata import NOTHING
from batchai_magics.server.storage.request import checked_path, resource_at


def store(service: Service, call: Call) -> Answer:
    """Puts the files of a pack on a share; when one of them is not what was sent, none."""
    service.check_subscription(call)
    share = call.query.get("share", "")
    sent = _sent(call, share)
    storage = _storage(service, call, share)
    contents = {checked_path(path): data for path, data in sent.items()}
    resources = [resource_at(_service(call), share, path) for path in contents]
    with service.metadata.exclusive(*(resource.key for resource in resources)):
        storage.upload(share, contents)
        for resource in resources:
            service.metadata.keep_new(resource, NOTHING)
    shown = [storage.show(share, path) for path in contents]
    return Answer(data={"value": [stamps(file)[WRITTEN] for file in shown]})


def _sent(call: Call, share: str) -> dict[str, bytes]:
    """The files of the pack that a request brings, by path; raises when one is not what was sent."""
    try:
        files = list(packs.from_bytes(call.body))
    except (ValueError, RecursionError) as error:
        raise invalid_content(str(error)) from None
    for file in files:
        if not file.is_right:
            raise refusals.damaged_upload(share, file.path)
    return {file.path: file.data for file in files}


def fetch(service: Service, call: Call) -> Answer:
    """The files of a share that have these `paths`: those that are there, and small enough together."""
    service.check_subscription(call)
    paths = call.json().get("paths")
    if not isinstance(paths, list) or len(paths) > packs.MOST_FILES:
        raise invalid_content(f"paths must be a list of at most {packs.MOST_FILES} paths")
    share = call.query.get("share", "")
    storage = _storage(service, call, share)
    files: dict[str, bytes] = {}
    room = packs.MOST_BYTES
    for path in (checked_path(str(path)) for path in paths):
        try:
            data = storage.read(share, path, 0, room + 1)
            mask = log_secrets.for_anybody(service, path)
            data = mask(0, data) if mask else data
        except NotFoundError:  # who wants it asks for it alone, and is told why it does not come
            continue
        if len(data) <= room:
            files[path] = data
            room -= len(data)
    return Answer(body=packs.to_bytes(files), headers={"Content-Type": "application/octet-stream"})


def _storage(service: Service, call: Call, share: str) -> Storage:
    """The backend's shares, or its containers; raises for a share that is not there."""
    is_blob = _service(call) == "blob"
    storage: Storage = (CONTAINERS if is_blob else STORAGE).of(service.backend)
    if share not in storage.shares():
        raise refusals.share_not_found(share, "container" if is_blob else "share")
    return storage


def _service(call: Call) -> str:
    return "blob" if call.query.get("service") == "blob" else "file"
