"""The fields of jobs that Azure Machine Learning cannot honour, each with what to do instead. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from batchai_magics.backends.azureml.settings import SIZE, SPOT
from batchai_magics.errors import CapabilityError
from batchai_magics.models.job_spec import JobPriority, JobSpec
from batchai_magics.models.secret_masking import is_secret_name, is_secret_text

_OWN_MODES = "leave it out: the service mounts with modes of its own"
# Field below `properties` → what to do instead.
ALWAYS: Mapping[str, str] = {
    "containerSettings.imageSourceRegistry.credentials": (
        "attach the registry to the workspace, which then pulls the image with its own identity"
    ),
    "mountVolumes.azureFileShares[].fileMode": _OWN_MODES,
    "mountVolumes.azureFileShares[].directoryMode": _OWN_MODES,
    "mountVolumes.azureBlobFileSystems[].mountOptions": (
        "leave it out: the service mounts with options of its own"
    ),
}
ON_CLUSTERS: Mapping[str, str] = {
    "schedulingPriority": "leave it out, or the cluster: only jobs without a cluster have a priority",
    "batchaiSpot": "leave out --spot, or the cluster: a cluster's nodes are dedicated or not",
    "batchaiSize": "leave out --size, or the cluster: a cluster's nodes have its size",
}
SECRETS: Mapping[str, str] = {
    "secrets": (
        "everybody in the workspace can read variables: set azureml.visible_secrets to yes to accept that, "
        "or read a key vault in the job with its managed identity (azureml.identity)"
    ),
    "environmentVariables[].value": (
        "what looks like a secret could be read by everybody in the workspace: set azureml.visible_secrets "
        "to yes to accept that, or read a key vault in the job with its managed identity (azureml.identity)"
    ),
}
REQUIRED: Mapping[str, str] = {
    "mountVolumes.azureFileShares[].credentials.accountKey": (
        "give it: the service mounts file shares with the account's key alone, and blob containers without"
    ),
}


def check_fields(spec: JobSpec, *, is_serverless: bool, has_consent: bool) -> None:
    """Checks that the service can honour all that a job asks for, before anything is sent.

    Raises:
        CapabilityError: It names the first field that the service cannot honour; the hint says what to do.
    """
    for field, instead in _refused(spec, is_serverless=is_serverless, has_consent=has_consent):
        what = "is required" if field in REQUIRED else "is not supported"
        text = f"properties.{field} {what} by the azureml backend"
        hint = f"{instead[0].upper()}{instead[1:]}. Nothing was sent."
        raise CapabilityError(text, code="NotSupported", hint=hint)


def _refused(spec: JobSpec, *, is_serverless: bool, has_consent: bool) -> Iterator[tuple[str, str]]:
    """The fields of a job that are refused, with what to do instead."""
    properties = spec.to_wire(secrets=True)["properties"]
    yield from (item for item in ALWAYS.items() if _is_given(properties, item[0].split(".")))
    given = {"secrets": spec.secrets, "environmentVariables[].value": _has_secret_variable(spec)}
    if not has_consent:
        yield from ((field, instead) for field, instead in SECRETS.items() if given[field])
    shares = (spec.mount_volumes and spec.mount_volumes.azure_file_shares) or ()
    if any(not share.credentials.account_key for share in shares):
        yield from REQUIRED.items()
    if not is_serverless:
        yield from ((field, ON_CLUSTERS[field]) for field in _of_serverless(spec))


def _has_secret_variable(spec: JobSpec) -> bool:
    """Whether a variable looks like a secret, by its name or value; numbers are none."""
    variables = spec.environment_variables or ()
    named = (item.value for item in variables if is_secret_name(item.name) and not item.value.isdecimal())
    return any(named) or any(is_secret_text(item.value) for item in variables)


def _of_serverless(spec: JobSpec) -> Iterator[str]:
    """The fields of a job that only one without a cluster may have."""
    if spec.scheduling_priority is not JobPriority.NORMAL:
        yield "schedulingPriority"
    yield from (
        option.field.removeprefix("properties.")
        for option in (SPOT, SIZE)
        if option.name in spec.backend_options
    )


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
