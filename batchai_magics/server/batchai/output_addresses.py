"""Addresses of job output: which share or container holds an output directory, and signed download URLs."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import PurePosixPath
from urllib.parse import quote, urlsplit

from batchai_magics.backends.base import FileRef
from batchai_magics.backends.folders import mounts
from batchai_magics.config import DEFAULT_ACCOUNT
from batchai_magics.errors import BatchAIError
from batchai_magics.models.job_execution import STDOUTERR
from batchai_magics.models.mount_volumes import AzureBlobFileSystem, AzureFileShare, Mount
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.resources import Cluster, JobResource
from batchai_magics.server.api_call import ApiCall
from batchai_magics.server.handler_context import HandlerContext
from batchai_magics.server.storage.sas import SasGrant, sign_sas
from batchai_magics.server.storage.storage_resource import OUTPUTS, OWN_ACCOUNT, StorageResource

_ON_MOUNT = re.compile(
    r"\$(?P<brace>\{)?AZ_BATCHAI_(?P<of_job>JOB_)?MOUNT_ROOT(?(brace)\})/+(?P<rest>.*)", re.DOTALL
)
_DEFAULTS = {
    mounts.DEFAULT_MOUNT: StorageResource(DEFAULT_ACCOUNT, "file", mounts.DEFAULT_SHARE),
    mounts.CONTAINER_MOUNT: StorageResource(DEFAULT_ACCOUNT, "blob", mounts.DEFAULT_CONTAINER),
}


def output_resource(context: HandlerContext, job: JobResource, directory_id: str) -> StorageResource | None:
    """The folder of an output directory on its share or container; None if it is on neither.

    Also None for a directory shared by several jobs: its path does not identify the job of a file.
    """
    if directory_id.lower() == STDOUTERR:
        prefix, inside = job.spec.std_out_err_path_prefix, f"{job.output_path_segment}/{STDOUTERR}"
    else:
        outputs = job.spec.output_directories or ()
        output = next((output for output in outputs if output.id.lower() == directory_id.lower()), None)
        if output is None or not output.is_own:
            return None
        prefix, inside = output.path_prefix, output.path_below("", job.output_path_segment)
    base = _resource_of_prefix(context, job, prefix)
    return base and _child(base, inside)


def _resource_of_prefix(context: HandlerContext, job: JobResource, prefix: str) -> StorageResource | None:
    """The share or container that a path below a mount root is on."""
    match = _ON_MOUNT.fullmatch(prefix)
    if not match:
        return None
    volumes = job.spec.mount_volumes
    if not match["of_job"]:
        id = ResourceId.parse(job.spec.cluster.id)
        cluster = context.backend.status([id]).of(id)
        setup = cluster.spec.node_setup if isinstance(cluster, Cluster) else None
        volumes = setup.mount_volumes if setup else None
    requested = volumes.all if volumes else ()
    mounted = {
        **_DEFAULTS,
        **{mount.relative_mount_path.strip("/"): _mount_resource(mount) for mount in requested},
    }
    rest = PurePosixPath(match["rest"])
    for relative, base in mounted.items():
        if rest.is_relative_to(relative) and ".." not in rest.parts:
            return base and _child(base, str(rest.relative_to(relative)))
    return None


def _mount_resource(mount: Mount) -> StorageResource | None:
    """The share or container that is mounted; None for any other mount."""
    if isinstance(mount, AzureBlobFileSystem):
        return StorageResource(mount.account_name, "blob", mount.container_name)
    if not isinstance(mount, AzureFileShare):
        return None
    share, _, path = urlsplit(mount.azure_file_url).path.strip("/").partition("/")
    return StorageResource(mount.account_name, "file", share or mounts.DEFAULT_SHARE, path)


def _child(folder: StorageResource, path: str) -> StorageResource:
    parts = [part for part in (*folder.path.split("/"), *path.split("/")) if part not in ("", ".")]
    return replace(folder, path="/".join(parts))


SAS_VERSION = "2016-05-31"  # as in the service's own URLs
_PATH = re.compile(
    r"(?:.*/)?(?P<sub>[^/]+)/(?P<group>[^/]+)/workspaces/(?P<ws>[^/]+)/experiments/(?P<exp>[^/]+)"
    r"/jobs/(?P<job>[^/]+)/(?P<guid>[^/]+)/(?P<inside>(?:stdouterr|outputs|directories)/.+)",
    re.DOTALL,
)
_BY_ID = re.compile(r"directories/(?P<id>[^/]+)/(?P<path>.+)", re.DOTALL)


def addressed_folder(context: HandlerContext, job: JobResource, directory_id: str) -> StorageResource:
    """The folder of an output directory in URLs: a virtual one of our own account if it is on no share."""
    directory = STDOUTERR if directory_id.lower() == STDOUTERR else f"directories/{directory_id}"
    address = StorageResource(OWN_ACCOUNT, "file", OUTPUTS, f"{job.output_path_segment}/{directory}")
    return output_resource(context, job, directory_id) or address


def signed_url(
    context: HandlerContext, call: ApiCall, folder: StorageResource, path: str, *, expiry_min: int
) -> str:
    """The URL of a file in such a folder, in the service's format; it expires."""
    file = f"{folder.share}/{folder.path}/{path}"
    expiry = datetime.now(timezone.utc) + timedelta(minutes=expiry_min)
    grant = SasGrant(folder.account, file, "rl", expiry, SAS_VERSION, folder.service)
    query = sign_sas(grant, context.keys.of(OWN_ACCOUNT)[0])
    return f"{call.origin}/{folder.account}/{quote(file)}?{query}"


def is_output_address(call: ApiCall, resource: StorageResource) -> bool:
    """Whether a request reads a file through such a URL, which our own key has signed."""
    is_reading = call.method in ("GET", "HEAD") and not {"restype", "comp"} & set(call.query)
    is_ours = call.query.get("sv") == SAS_VERSION and call.query.get("sr") in ("f", "b")
    return is_reading and is_ours and _PATH.fullmatch(resource.path) is not None


def output_file_at(context: HandlerContext, resource: StorageResource) -> FileRef | None:
    """The job file at such a URL; None if its job no longer exists or has no directory there.

    Directories of a job have the same path on different shares and containers.
    """
    match = _PATH.fullmatch(resource.path)
    job = _job_of(context, match) if match else None
    if match is None or job is None:
        return None
    by_id = _BY_ID.fullmatch(match["inside"])
    if by_id:
        return FileRef(job.id, by_id["path"], by_id["id"]) if resource.share == OUTPUTS else None
    directory_ids = (STDOUTERR, *(output.id for output in job.spec.output_directories or ()))
    bases = {id: output_resource(context, job, id) for id in directory_ids}
    folders = [(base, id) for id, base in bases.items() if base and resource.key.startswith(f"{base.key}/")]
    if not folders:
        return None
    base, id = max(folders, key=lambda folder: len(folder[0].path))
    return FileRef(job.id, resource.path.removeprefix(base.path).lstrip("/"), id)


def log_at(context: HandlerContext, path: str) -> FileRef | None:
    """The job's log at a path of any share or container; None if the path is no log's."""
    match = _PATH.fullmatch(path)
    folder, _, rest = match["inside"].removeprefix("directories/").partition("/") if match else ("", "", "")
    job = _job_of(context, match) if match and folder.lower() == STDOUTERR else None
    return FileRef(job.id, rest, STDOUTERR) if job else None


def _job_of(context: HandlerContext, match: re.Match[str]) -> JobResource | None:
    """The job whose run a path names; None if it no longer exists."""
    scope = f"/subscriptions/{match['sub']}/resourceGroups/{match['group']}/providers/Microsoft.BatchAI"
    try:
        id = ResourceId.parse(
            f"{scope}/workspaces/{match['ws']}/experiments/{match['exp']}/jobs/{match['job']}"
        )
        job = context.backend.show(id)
    except BatchAIError:
        return None
    is_run = isinstance(job, JobResource) and job.output_path_segment.endswith("/" + match["guid"])
    return job if is_run and isinstance(job, JobResource) else None
