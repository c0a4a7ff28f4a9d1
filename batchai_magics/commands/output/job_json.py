"""A job as `az` prints it, converted from the JSON of its description without loading the models.

The field tables repeat the models (a test compares them), because importing the models takes longer than
listing jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from batchai_magics.commands.output.az_json import (
    DURATION_FIELD,
    format_duration,
    format_time,
    resource_group_of,
    to_az_json,
)
from batchai_magics.models.ids import Kind
from batchai_magics.models.resources.jobs import ATTEMPTS, WAITING

if TYPE_CHECKING:
    from batchai_magics.models.execution import ExecutionInfo
    from batchai_magics.models.resources import JobResource


class DefaultObject(NamedTuple):
    """An object that is printed with its default fields when missing, where others are null."""

    fields: Fields


# A string is the default of a missing field; `{}` is an object with keys chosen by users.
Fields = Mapping[str, "Fields | DefaultObject | str | None"]

_REFERENCE: Fields = {"id": None}
_VAULT: Fields = {"sourceVault": _REFERENCE, "secretUrl": None}
_ACCOUNT_KEY = DefaultObject({"accountKey": None, "accountKeySecretReference": _VAULT})
_SCRIPT: Fields = {"pythonScriptFilePath": None, "pythonInterpreterPath": None}
_RUN: Fields = {**_SCRIPT, "commandLineArgs": None}
_RANKS: Fields = {**_RUN, "processCount": None}
_MOUNTS: Fields = {
    "azureFileShares": {
        "accountName": None,
        "azureFileUrl": None,
        "credentials": _ACCOUNT_KEY,
        "relativeMountPath": None,
        "fileMode": None,
        "directoryMode": None,
    },
    "azureBlobFileSystems": {
        "accountName": None,
        "containerName": None,
        "credentials": _ACCOUNT_KEY,
        "relativeMountPath": None,
        "mountOptions": None,
    },
    "fileServers": {
        "fileServer": _REFERENCE,
        "sourceDirectory": None,
        "relativeMountPath": None,
        "mountOptions": None,
    },
    "unmanagedFileSystems": {"mountCommand": None, "relativeMountPath": None},
}
_REGISTRY: Fields = {
    "serverUrl": None,
    "image": None,
    "credentials": {"username": None, "password": None, "passwordSecretReference": _VAULT},
}
_TOOLKITS: Fields = {
    "cntkSettings": {"languageType": None, "configFilePath": None, **_RANKS},
    "pyTorchSettings": {**_RANKS, "communicationBackend": None},
    "tensorFlowSettings": {
        **_SCRIPT,
        "masterCommandLineArgs": None,
        "workerCommandLineArgs": None,
        "parameterServerCommandLineArgs": None,
        "workerCount": None,
        "parameterServerCount": None,
    },
    "caffeSettings": {"configFilePath": None, **_RANKS},
    "caffe2Settings": _RUN,
    "chainerSettings": _RANKS,
    "customToolkitSettings": {"commandLine": None, "batchaiProcessCount": None},
    "customMpiSettings": {"commandLine": None, "processCount": None},
    "horovodSettings": _RANKS,
}
JOB: Fields = {
    "schedulingPriority": "normal",
    "cluster": _REFERENCE,
    "mountVolumes": _MOUNTS,
    "nodeCount": None,
    "containerSettings": {"imageSourceRegistry": _REGISTRY, "shmSize": None},
    **_TOOLKITS,
    "jobPreparation": {"commandLine": None},
    "stdOutErrPathPrefix": None,
    "inputDirectories": {"id": None, "path": None, "createNew": None},
    "outputDirectories": {"id": None, "pathPrefix": None, "pathSuffix": None, "createNew": None},
    "environmentVariables": {"name": None, "value": None},
    "secrets": {"name": None, "value": None, "valueSecretReference": _VAULT},
    "constraints": DefaultObject({DURATION_FIELD: "7 days, 0:00:00"}),
    "batchaiStopIf": None,
    "batchaiPatterns": {},
    "batchaiSlurm": None,
}
ERROR: Fields = {"code": None, "message": None, "details": {"name": None, "value": None}}
TOOLS = {  # settings key → short name of the toolkit
    "cntkSettings": "cntk",
    "pyTorchSettings": "pytorch",
    "tensorFlowSettings": "tensorflow",
    "caffeSettings": "caffe",
    "caffe2Settings": "caffe2",
    "chainerSettings": "chainer",
    "customToolkitSettings": "custom",
    "customMpiSettings": "mpi",
    "horovodSettings": "horovod",
}


_HEADER_FIELDS = (  # fields of a job that are not part of its description
    "id",
    "name",
    "type",
    "resourceGroup",
    "creationTime",
    "provisioningState",
    "provisioningStateTransitionTime",
    "toolType",
    "jobOutputDirectoryPathSegment",
    "executionState",
    "executionStateTransitionTime",
    "executionInfo",
)


class ObjectFields:
    """All fields of a JSON object with their defaults, usually null."""

    def __init__(self, fields: Fields, beside: tuple[str, ...] = ()) -> None:
        blank = {**dict.fromkeys(beside), **{key: _default(field) for key, field in fields.items()}}
        self._blank: dict[str, Any] = dict(sorted(blank.items()))
        self._converters = {key: _converter(key, field) for key, field in fields.items()}

    def fill(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Adds the missing fields; raises KeyError for an unknown one."""
        data = self._blank.copy()
        for key, value in fields.items():
            make = self._converters[key]
            data[key] = make(value) if make else value
        return data


class JobHeader(NamedTuple):
    """The JSON-ready fields of a job that are not part of its description."""

    id: str
    name: str
    group: str
    created: str
    provisioning: str
    provisioned: str  # time of the last change of `provisioning`
    segment: str
    state: str
    changed: str  # time of the last change of `state`
    execution: Any


def job_data(job: JobResource) -> dict[str, Any]:
    """JSON-ready data of a job."""
    id, made, info = job.id, job.provisioning, job.execution
    created = format_time(made.created)
    beside = JobHeader(
        id=str(id),
        name=id.name,
        group=id.group,
        created=created,
        provisioning=made.state.value,
        provisioned=created if made.changed is made.created else format_time(made.changed),
        segment=job.output_path_segment,
        state=job.state.value,
        changed=format_time(job.state_changed),
        execution=info and _execution(info),
    )
    data = job_document(job.description, beside)
    if job.waiting or job.attempts:  # not part of the published API
        data[WAITING] = job.waiting or None
        data[ATTEMPTS] = [attempt.to_wire() for attempt in job.attempts] or None
    return data


def job_document(description: Mapping[str, Any], beside: JobHeader) -> dict[str, Any]:
    """JSON-ready data of a job from its description and its other fields."""
    data = _job_fields().fill(description)
    data["id"], data["name"], data["resourceGroup"] = beside.id, beside.name, beside.group
    data["type"] = Kind.JOB.wire_type
    data["creationTime"], data["provisioningState"] = beside.created, beside.provisioning
    data["provisioningStateTransitionTime"] = beside.provisioned
    data["toolType"] = next(tool for key, tool in TOOLS.items() if key in description)
    data["jobOutputDirectoryPathSegment"] = beside.segment
    data["executionState"], data["executionStateTransitionTime"] = beside.state, beside.changed
    data["executionInfo"] = beside.execution
    return data


def execution_data(
    started: str, ended: str | None, exit_code: int | None, errors: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """JSON-ready `executionInfo`; `errors` are wire dicts of ErrorDetail."""
    return {
        "endTime": ended,
        "errors": list(map(_error_fields().fill, errors)) or None,
        "exitCode": exit_code,
        "startTime": started,
    }


def _execution(info: ExecutionInfo) -> dict[str, Any]:
    errors = [error.to_wire() for error in info.errors]
    return execution_data(
        format_time(info.started), format_time(info.ended) if info.ended else None, info.exit_code, errors
    )


@lru_cache(maxsize=1)
def _job_fields() -> ObjectFields:
    return ObjectFields(JOB, _HEADER_FIELDS)


@lru_cache(maxsize=1)
def _error_fields() -> ObjectFields:
    return ObjectFields(ERROR)


def _default(field: Fields | DefaultObject | str | None) -> Any:
    """The default of a missing field."""
    if isinstance(field, DefaultObject):
        return ObjectFields(field.fields).fill({})
    return field if isinstance(field, str) else None


def _converter(key: str, field: Fields | DefaultObject | str | None) -> Callable[[Any], Any] | None:
    """The converter of a field's JSON value; None for one that is printed unchanged."""
    if key == DURATION_FIELD:
        return format_duration
    if isinstance(field, DefaultObject):
        return _object_converter(field.fields)
    if isinstance(field, Mapping):
        return _object_converter(field) if field else to_az_json
    return None


def _object_converter(fields: Fields) -> Callable[[Any], Any]:
    shape, has_id = ObjectFields(fields), "id" in fields

    def one(fields: Mapping[str, Any]) -> dict[str, Any]:
        data = shape.fill(fields)
        group = resource_group_of(data["id"]) if has_id else None
        return dict(sorted([*data.items(), ("resourceGroup", group)])) if group else data

    return lambda value: [one(item) for item in value] if isinstance(value, list) else one(value)
