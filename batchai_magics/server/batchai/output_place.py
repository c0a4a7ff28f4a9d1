"""Where a job's output directory is on a share or in a container, by what is mounted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from batchai_magics.backends.folders import mounts
from batchai_magics.config import DEFAULT_ACCOUNT
from batchai_magics.models.execution import STDOUTERR
from batchai_magics.models.ids import ResourceId
from batchai_magics.models.job import JobSpec, OutputDirectory
from batchai_magics.models.resources import Cluster, JobResource
from batchai_magics.models.storage import AzureBlobFileSystem, AzureFileShare, Mount, MountVolumes
from batchai_magics.server.service import Service
from batchai_magics.server.storage.request import Resource

_ON_MOUNT = re.compile(
    r"\$(?P<brace>\{)?AZ_BATCHAI_(?P<of_job>JOB_)?MOUNT_ROOT(?(brace)\})/+(?P<rest>.*)", re.DOTALL
)
_DEFAULTS = {
    mounts.DEFAULT_MOUNT: Resource(DEFAULT_ACCOUNT, "file", mounts.DEFAULT_SHARE),
    mounts.CONTAINER_MOUNT: Resource(DEFAULT_ACCOUNT, "blob", mounts.DEFAULT_CONTAINER),
}


def place_of(service: Service, job: JobResource, directory_id: str) -> Resource | None:
    """The folder of an output directory on its share or in its container; None if it is on neither.

    So is a directory that is not the run's own: its path does not tell which job it belongs to.
    """
    if directory_id.lower() == STDOUTERR:
        prefix, inside = job.spec.std_out_err_path_prefix, f"{job.output_path_segment}/{STDOUTERR}"
    else:
        output = _output(job.spec, directory_id)
        if output is None or not output.is_own:
            return None
        prefix, inside = output.path_prefix, output.path_below("", job.output_path_segment)
    base = _mounted(service, job, prefix)
    return base and _below(base, inside)


def directory_at(job: JobResource, path: str) -> tuple[str, str] | None:
    """The output directory and the path in it, for a path below a run's folder on a share."""
    first, _, rest = path.partition("/")
    if first == STDOUTERR:
        return STDOUTERR, rest
    if first != "outputs":
        return None
    own = [output for output in job.spec.output_directories or () if output.is_own]
    for output in sorted(own, key=lambda output: -len(output.path_suffix or "")):
        suffix = f"{output.path_suffix.strip('/')}/" if output.path_suffix else ""
        if rest.startswith(suffix):
            return output.id, rest.removeprefix(suffix)
    return None


def _output(spec: JobSpec, directory_id: str) -> OutputDirectory | None:
    outputs = spec.output_directories or ()
    return next((output for output in outputs if output.id.lower() == directory_id.lower()), None)


def _mounted(service: Service, job: JobResource, prefix: str) -> Resource | None:
    """What a path below a mount root names."""
    match = _ON_MOUNT.fullmatch(prefix)
    if not match:
        return None
    volumes = job.spec.mount_volumes if match["of_job"] else _volumes_of_cluster(service, job)
    rest = PurePosixPath(match["rest"])
    for relative, place in _places(volumes).items():
        if rest.is_relative_to(relative) and ".." not in rest.parts:
            return place and _below(place, str(rest.relative_to(relative)))
    return None


def _volumes_of_cluster(service: Service, job: JobResource) -> MountVolumes | None:
    id = ResourceId.parse(job.spec.cluster.id)
    cluster = service.backend.status([id]).of(id)
    setup = cluster.spec.node_setup if isinstance(cluster, Cluster) else None
    return setup.mount_volumes if setup else None


def _places(volumes: MountVolumes | None) -> Mapping[str, Resource | None]:
    """What is mounted at each path; None for what is neither a share nor a container."""
    given = {
        mount.relative_mount_path.strip("/"): _place(mount) for mount in (volumes.all if volumes else ())
    }
    return {**_DEFAULTS, **given}


def _place(mount: Mount) -> Resource | None:
    if isinstance(mount, AzureBlobFileSystem):
        return Resource(mount.account_name, "blob", mount.container_name)
    if not isinstance(mount, AzureFileShare):
        return None
    share, _, path = urlsplit(mount.azure_file_url).path.strip("/").partition("/")
    return Resource(mount.account_name, "file", share or mounts.DEFAULT_SHARE, path)


def _below(place: Resource, path: str) -> Resource:
    parts = [part for part in (*place.path.split("/"), *path.split("/")) if part not in ("", ".")]
    return Resource(place.account, place.service, place.share, "/".join(parts))
