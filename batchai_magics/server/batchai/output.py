"""The addresses of what jobs wrote: shared access signatures of the server's own, one file each."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from urllib.parse import quote

from batchai_magics.backends.base import FileRef
from batchai_magics.errors import BatchAIError
from batchai_magics.models.execution import STDOUTERR
from batchai_magics.models.ids import ResourceId
from batchai_magics.models.resources import JobResource
from batchai_magics.server.call import Call
from batchai_magics.server.service import Service
from batchai_magics.server.storage.keys import OUTPUTS, OWN_ACCOUNT
from batchai_magics.server.storage.sas import Grant, sign

_SAS_VERSION = "2016-05-31"  # as the service's own addresses had it
_PATH = re.compile(
    r"(?:.*/)?(?P<sub>[^/]+)/(?P<group>[^/]+)/workspaces/(?P<ws>[^/]+)/experiments/(?P<exp>[^/]+)/jobs/(?P<job>[^/]+)"
    r"/(?P<guid>[^/]+)/(?P<directory>stdouterr|outputs/[^/]+)/(?P<path>.+)",
    re.DOTALL,
)


def address(
    service: Service, call: Call, job: JobResource, directory_id: str, path: str, expiry_min: int
) -> str:
    """Where a file of an output directory is read by whoever has the address, until it expires."""
    directory = STDOUTERR if directory_id.lower() == STDOUTERR else f"outputs/{directory_id}"
    file = f"{OUTPUTS}/{job.output_path_segment}/{directory}/{path}"
    expiry = datetime.now(timezone.utc) + timedelta(minutes=expiry_min)
    grant = Grant(OWN_ACCOUNT, file, permissions="rl", expiry=expiry, version=_SAS_VERSION)
    return f"{call.origin}/{OWN_ACCOUNT}/{quote(file)}?{sign(grant, service.keys.of(OWN_ACCOUNT)[0])}"


def file_at(service: Service, path: str) -> FileRef | None:
    """The file of a job that lies at a path of such an address, or of a share, if its job is still there."""
    match = _PATH.fullmatch(path)
    if not match:
        return None
    scope = f"/subscriptions/{match['sub']}/resourceGroups/{match['group']}/providers/Microsoft.BatchAI"
    try:
        id = ResourceId.parse(
            f"{scope}/workspaces/{match['ws']}/experiments/{match['exp']}/jobs/{match['job']}"
        )
        job = service.backend.show(id)
    except BatchAIError:
        return None
    if not isinstance(job, JobResource) or not job.output_path_segment.endswith("/" + match["guid"]):
        return None
    return FileRef(job.id, match["path"], match["directory"].removeprefix("outputs/"))
