"""The addresses of what jobs wrote: shared access signatures of the server's own, one file each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import cached_property
from urllib.parse import quote

from batchai_magics.backends.base import FileRef
from batchai_magics.errors import BatchAIError
from batchai_magics.models.execution import STDOUTERR
from batchai_magics.models.ids import ResourceId
from batchai_magics.models.resources import JobResource
from batchai_magics.server.batchai.output_place import directory_at, place_of
from batchai_magics.server.call import Call
from batchai_magics.server.service import Service
from batchai_magics.server.storage.request import OUTPUTS, OWN_ACCOUNT, Resource
from batchai_magics.server.storage.sas import Grant, sign

SAS_VERSION = "2016-05-31"  # as the service's own addresses had it
_PATH = re.compile(
    r"(?:.*/)?(?P<sub>[^/]+)/(?P<group>[^/]+)/workspaces/(?P<ws>[^/]+)/experiments/(?P<exp>[^/]+)"
    r"/jobs/(?P<job>[^/]+)/(?P<guid>[^/]+)/(?P<inside>(?:stdouterr|outputs|directories)/.+)",
    re.DOTALL,
)
_BY_ID = re.compile(r"directories/(?P<id>[^/]+)/(?P<path>.+)", re.DOTALL)


@dataclass(frozen=True)
class Addresses:
    """Where the files of an output directory are read by whoever has their address, until it expires."""

    service: Service
    call: Call
    job: JobResource
    directory_id: str
    expiry_min: int

    def of(self, path: str) -> str:
        """The address of a file: on its share or in its container, as the service gave it."""
        place = self._folder
        file = f"{place.share}/{place.path}/{path}"
        expiry = datetime.now(timezone.utc) + timedelta(minutes=self.expiry_min)
        grant = Grant(place.account, file, "rl", expiry, SAS_VERSION, place.service)
        query = sign(grant, self.service.keys.of(OWN_ACCOUNT)[0])
        return f"{self.call.origin}/{place.account}/{quote(file)}?{query}"

    @cached_property
    def _folder(self) -> Resource:
        """The folder of the directory; of one that is on no share, a folder of our own."""
        is_log = self.directory_id.lower() == STDOUTERR
        directory = STDOUTERR if is_log else f"directories/{self.directory_id}"
        own = Resource(OWN_ACCOUNT, "file", OUTPUTS, f"{self.job.output_path_segment}/{directory}")
        return place_of(self.service, self.job, self.directory_id) or own


def is_address(call: Call, resource: Resource) -> bool:
    """Whether a request reads a file at such an address, which is signed with our own key."""
    is_reading = call.method in ("GET", "HEAD") and not {"restype", "comp"} & set(call.query)
    is_ours = call.query.get("sv") == SAS_VERSION and call.query.get("sr") in ("f", "b")
    return is_reading and is_ours and _PATH.fullmatch(resource.path) is not None


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
    by_id = _BY_ID.fullmatch(match["inside"])
    found = (by_id["id"], by_id["path"]) if by_id else directory_at(job, match["inside"])
    return FileRef(job.id, found[1], found[0]) if found else None
