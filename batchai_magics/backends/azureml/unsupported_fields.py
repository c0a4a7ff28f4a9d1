"""The fields of jobs that Azure Machine Learning cannot honour, each with what to do instead. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from batchai_magics.backends.azureml.settings import SIZE, SPOT
from batchai_magics.errors import CapabilityError
from batchai_magics.models.job_spec import JobPriority, JobSpec

# Field below `properties` → what to do instead.
UNSUPPORTED: Mapping[str, str] = {
    "containerSettings.imageSourceRegistry.credentials": (
        "attach the registry to the workspace, which then pulls the image with its own identity"
    ),
    "mountVolumes.azureFileShares[].fileMode": "the service mounts with modes of its own",
    "mountVolumes.azureFileShares[].directoryMode": "the service mounts with modes of its own",
    "mountVolumes.azureBlobFileSystems[].mountOptions": "the service mounts with options of its own",
}
PRIORITY = "only jobs without a cluster have a priority: leave out schedulingPriority, or the cluster"
SECRETS = (
    "everybody in the workspace can read variables: set azureml.visible_secrets to yes to accept that, or "
    "read a key vault in the job with its managed identity (azureml.identity)"
)
FILE_SHARE_KEY = "a file share is mounted with the account's key alone: give it, or mount a blob container"
SPOT_INSTEAD = "a cluster has low-priority nodes, or none: leave out --spot, or the cluster"
SIZE_INSTEAD = "the size of a cluster is the cluster's: leave out --size, or the cluster"


def check_fields(spec: JobSpec, *, is_serverless: bool, has_consent: bool) -> None:
    """Checks that the service can honour all that a job asks for, before anything is sent.

    Raises:
        CapabilityError: It names the first field that the service cannot honour; the hint says what to do.
    """
    properties = spec.to_wire(secrets=True)["properties"]
    for field, instead in UNSUPPORTED.items():
        if _is_given(properties, field.split(".")):
            raise unsupported(field, instead)
    for share in (spec.mount_volumes and spec.mount_volumes.azure_file_shares) or ():
        if not share.credentials.account_key:
            raise unsupported("mountVolumes.azureFileShares[].credentials", FILE_SHARE_KEY, is_missing=True)
    if spec.secrets and not has_consent:
        raise unsupported("secrets", SECRETS)
    if not is_serverless:
        _check_cluster(spec)


def _check_cluster(spec: JobSpec) -> None:
    """Raises a CapabilityError for what only jobs without a cluster may have."""
    if spec.scheduling_priority is not JobPriority.NORMAL:
        raise unsupported("schedulingPriority", PRIORITY)
    for option, instead in ((SPOT, SPOT_INSTEAD), (SIZE, SIZE_INSTEAD)):
        if option.name in spec.backend_options:
            raise unsupported(option.field.removeprefix("properties."), instead)


def unsupported(field: str, instead: str, *, is_missing: bool = False) -> CapabilityError:
    """The error for a field, with what to do instead."""
    what = "is required" if is_missing else "is not supported"
    text = f"properties.{field} {what} by the azureml backend"
    return CapabilityError(text, code="NotSupported", hint=f"{instead[0].upper()}{instead[1:]}.")


def _is_given(value: Any, names: list[str]) -> bool:
    """Whether wire JSON has a value at a path; `[]` stands for any item of a list."""
    if not names:
        return bool(value)
    if not isinstance(value, Mapping):
        return False
    name, *rest = names
    found = value.get(name.removesuffix("[]"))
    items = found if isinstance(found, list) else [found]
    return any(_is_given(item, rest) for item in items)
