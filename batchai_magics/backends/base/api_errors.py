"""The errors of the service, built in one place so that all backends report them alike.

Messages and codes, including their grammar, are copied from recorded responses; hints are ours.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence

from batchai_magics.errors import (
    DISK_FULL,
    ConflictError,
    NotFoundError,
    Problem,
    ServiceError,
    SpecError,
    StorageError,
    is_disk_full,
)
from batchai_magics.models.job_execution import RUN_FOLDERS, STDOUTERR
from batchai_magics.models.resource_ids import Kind, ResourceId

_MISNAMED = (errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL)
_OTHER_TYPE = (errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY)
_NOT_WRITABLE = (errno.EROFS, errno.EACCES, errno.EPERM)


def not_found(id: ResourceId, names: Sequence[str] = ()) -> NotFoundError:
    """The resource does not exist; `names` are existing ones to suggest."""
    text = f"The specified {id.kind.noun} {id.name} is not found"
    return NotFoundError(text, code=f"{id.kind.code}NotFound", hint=_known(names))


def node_not_found(node_id: str) -> NotFoundError:
    """The node does not exist."""
    return NotFoundError(f"Cannot find a node with id={node_id}", code="NodeNotFound")


def output_directory_not_found(directory_id: str, known: Sequence[str]) -> NotFoundError:
    """The job has no such output directory; `known` are the ids of those that it has."""
    hint = f"This job has: {', '.join([STDOUTERR, *RUN_FOLDERS, *known])}."
    return _no_directory(directory_id, hint)


def output_directory_not_here(directory_id: str, path: str) -> NotFoundError:
    """The output directory is at `path` on the job's nodes, not on a share that can be read."""
    return _no_directory(directory_id, f"It is at {path} on the job's nodes.")


def group_not_found(name: str) -> NotFoundError:
    """The resource group does not exist."""
    return NotFoundError(f"Resource group '{name}' could not be found.", code="ResourceGroupNotFound")


def account_not_found(name: str, names: Sequence[str] = ()) -> NotFoundError:
    """The storage account does not exist; `names` are existing ones."""
    text = f'Cannot find "{name}" storage account.'
    return NotFoundError(text, code="StorageAccountNotFound", hint=_known(names) or "There are none yet.")


def share_not_found(share: str, noun: str = "share") -> NotFoundError:
    """The share or container does not exist."""
    code = f"{noun.capitalize()}NotFound"
    return NotFoundError(f"The specified {noun} {share} does not exist", code=code)


def share_in_use(share: str, jobs: Sequence[str]) -> ConflictError:
    """Running or queued jobs use the share or container."""
    return ConflictError(
        f"Jobs use the share {share}: it is not deleted", code="ShareInUse", hint=_wait(jobs)
    )


def account_in_use(account: str, jobs: Sequence[str]) -> ConflictError:
    """Running or queued jobs use shares or containers of the storage account."""
    text = f"Jobs use shares of the account {account}: it is not deleted"
    return ConflictError(text, code="StorageAccountInUse", hint=_wait(jobs))


def _wait(jobs: Sequence[str]) -> str:
    others = " and others" if len(jobs) > 3 else ""
    return f"Wait for the end of {', '.join(jobs[:3])}{others}, or terminate what runs."


def not_on_share(share: str, path: str) -> NotFoundError:
    """There is no entry at that path."""
    return NotFoundError(f"{path!r} is not on share {share!r}", code="ResourceNotFound")


def no_file_of_share(share: str, path: str) -> NotFoundError:
    """No file exists at that path."""
    return NotFoundError(f"{path!r} is not a file of share {share!r}", code="ResourceNotFound")


def no_folder_of_share(share: str, path: str) -> NotFoundError:
    """No folder exists at that path."""
    return NotFoundError(f"{path!r} is not a folder of share {share!r}", code="ParentNotFound")


def share_not_written(share: str, error: OSError) -> ServiceError:
    """A share could not be written to."""
    text = f"share {share!r} cannot be written"
    if is_disk_full(error):
        hint = "Free some space there and upload again; what was on it is as it was."
        return StorageError(f"{text}: its disk is full", code=DISK_FULL, hint=hint)
    if error.errno in _MISNAMED:
        hint = "A name has at most 255 bytes, a path 4,095."
        return StorageError(f"{text} at such a path: {error.strerror}", hint=hint)
    if error.errno in _OTHER_TYPE:
        hint = "A file and a folder cannot share a name: choose another one, or delete what is there."
        return ConflictError(f"{text} there: {error.strerror}", code="ResourceTypeMismatch", hint=hint)
    if error.errno == errno.EFBIG:
        return StorageError(f"{text}: no file can be that large there", code=DISK_FULL)
    if error.errno in _NOT_WRITABLE:
        hint = "Give the backend's user write permission there."
        return StorageError(f"{text}: {error.strerror}", code="ShareReadOnly", hint=hint)
    return StorageError(f"{text}: {error.strerror}", code="ShareUnavailable", hint="Try again in a moment.")


def unknown_page(token: str) -> ServiceError:
    """The page token does not belong to any list of this service."""
    return ServiceError(f"The $skiptoken {token!r} is not from this service.", code="InvalidSkipToken")


def damaged_upload(share: str, path: str) -> StorageError:
    """The data received differs from the data sent."""
    return StorageError(f"{path!r} was corrupted in transit to {share!r}", hint="Upload it again.")


def already_exists(id: ResourceId) -> ConflictError:
    """A different resource has that id."""
    if id.kind is Kind.JOB:
        text = "A job with given name, experiment, workspace and resource group already exists."
        return ConflictError(
            f"{text} It is a different job.", code="JobAlreadyExists", hint=f"Name: {id.name}"
        )
    text = f'"{id.name}" already exists in "{id.group}" resource group under {id.workspace} resource group.'
    return ConflictError(text, code=f"{id.kind.code}AlreadyExists", hint="Show it, or delete it first.")


def account_taken(name: str) -> ConflictError:
    """A storage account in another group has that name."""
    text = f"The storage account named {name} is already taken."
    return ConflictError(text, code="StorageAccountAlreadyTaken", hint="Choose another name.")


def not_low_priority(cluster: ResourceId) -> ConflictError:
    """The cluster's nodes cannot be preempted."""
    text = f"{cluster.name} is not a lowpriority cluster: its nodes are not preempted"
    return ConflictError(text, code="NotLowPriority", hint="Create one with --vm-priority lowpriority.")


def does_not_end(job: ResourceId) -> ConflictError:
    """The job was asked to stop, and has not ended."""
    return ConflictError(f"The job {job.name} does not end", code="JobNotTerminated", hint="Try again.")


def no_setup_logs() -> ServiceError:
    """The cluster has no setup task, so it has no output either."""
    return ServiceError(
        "List files is supported only for clusters with startup task configure to store its output on"
        " Azure File Share or Azure Blob Container"
    )


def too_many_nodes(count: int, cluster: ResourceId, maximum: int) -> SpecError:
    """A job asks for more nodes than its cluster can ever have."""
    from batchai_magics.models.job_spec import JobSpec

    resize = f"batchai cluster resize -n {cluster.name} -t {count}"
    fix = f"ask for at most {maximum}, add --grow, or run `{resize}`"
    text = f"{count} nodes were requested, but cluster {cluster.name} has {maximum}"
    return SpecError([Problem("properties.nodeCount", text, fix)], what=JobSpec.what)


def _no_directory(directory_id: str, hint: str) -> NotFoundError:
    text = f"The specified outputDirectoryId {directory_id} is not present on a mount root"
    return NotFoundError(text, code="OutputDirectoryNotFound", hint=hint)


def _known(names: Sequence[str]) -> str:
    return f"Available: {', '.join(names)}." if names else ""
