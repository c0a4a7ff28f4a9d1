"""Resources as `az -o json` prints them: nulls, sorted keys, flat `properties`, added `resourceGroup`."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

from batchai_magics.commands.output.table_columns import Blob, by_type_name
from batchai_magics.commands.output.text_table import Tabular
from batchai_magics.models.resources import JobResource
from batchai_magics.models.resources.job_resource import ATTEMPTS, WAITING
from batchai_magics.models.wire_times import duration

if TYPE_CHECKING:
    from pydantic import BaseModel

    from batchai_magics.backends.base import ShareFile
    from batchai_magics.commands.output.table_columns import SetupFile
    from batchai_magics.models.error_details import ErrorDetail
    from batchai_magics.models.file_server import FileServer
    from batchai_magics.models.job_execution import OutputFile
    from batchai_magics.models.resources import Cluster, Experiment, Workspace
    from batchai_magics.models.wire_model import WireModel


AzObject: TypeAlias = dict[str, Any]
"""A JSON object as `az` prints it: camelCase keys, null for a missing value, times as UTC text."""

_GROUP = re.compile(r"/subscriptions/[^/]+/resourceGroups/([^/]+)/", re.IGNORECASE)
DURATION_FIELD = "maxWallClockTime"  # the only duration field
_JSON_SCALARS = {str, int, float, bool, type(None)}
COST, CURRENCY = "cost", "currency"  # of a job whose nodes have a price
COST_DIGITS = 6  # decimals


def to_az_json(value: Any) -> Any:
    """JSON-ready data with sorted keys, without secrets, with the resource group beside every ARM id."""
    if type(value) in _JSON_SCALARS:
        return value
    if isinstance(value, datetime):
        return format_time(value)
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (list, tuple)):
        return [to_az_json(item) for item in value]
    if isinstance(value, Mapping):
        return _completed({key: to_az_json(item) for key, item in value.items()})
    if isinstance(value, Path):
        return str(value)
    from batchai_magics.models.wire_model import WireModel  # slow import; what lists no job does without

    return model_fields(value) if isinstance(value, WireModel) else value


def model_fields(model: WireModel) -> AzObject:
    """The fields of a model by their JSON names, and native options of a job."""
    data = model.to_wire()
    return wire_fields(type(model), data[model.wrapper] if model.wrapper else data)


def wire_fields(kind: type[BaseModel], data: Mapping[str, Any]) -> AzObject:
    """The fields of a model of this kind in the service's JSON, with null for those that it leaves out."""
    return _completed(_fields_with_nulls(kind, data))


def _fields_with_nulls(kind: type[BaseModel], data: Mapping[str, Any]) -> AzObject:
    nulls, models = _schema(kind)
    fields = {**nulls, **data}
    for key, value in data.items():
        if type(value) in _JSON_SCALARS:
            continue
        inner = models.get(key)
        if inner is None:
            fields[key] = to_az_json(value)
        elif isinstance(value, dict):
            fields[key] = wire_fields(inner, value)
        else:
            fields[key] = [wire_fields(inner, item) for item in value]
    return fields


@lru_cache(maxsize=256)  # the times of one resource are often the same
def format_time(time: datetime) -> str:
    """A time in UTC with milliseconds."""
    utc = time if time.tzinfo is timezone.utc else time.astimezone(timezone.utc)
    return utc.replace(microsecond=utc.microsecond // 1000 * 1000).isoformat()


def resource_group_of(id: str) -> str | None:
    """The resource group in an ARM id; None for any other text."""
    match = _GROUP.match(id)
    return match[1] if match else None


def format_duration(text: str) -> str:
    """A duration as `az` prints it: `7 days, 0:00:00`."""
    return str(duration(text))


@lru_cache(maxsize=256)
def _schema(kind: type[BaseModel]) -> tuple[AzObject, Mapping[str, type[BaseModel]]]:
    """The JSON names of a model's fields, each with null, and the models of fields that have one."""
    fields = {field.alias or name: field.annotation for name, field in kind.model_fields.items()}
    models = {name: inner for name, type in fields.items() if (inner := _model_in(type))}
    return dict.fromkeys(sorted(fields)), models


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model that a field has, or has many of."""
    from pydantic import BaseModel

    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)


def _completed(data: AzObject) -> AzObject:
    """An object with sorted keys, the resource group beside an ARM id, and its duration as `az` has it."""
    group = resource_group_of(str(data["id"])) if "id" in data else None
    if group:
        data["resourceGroup"] = group
    if data.get(DURATION_FIELD):
        data[DURATION_FIELD] = format_duration(data[DURATION_FIELD])
    return {name: data[name] for name in sorted(data)}


def as_json(value: Any) -> Any:
    """JSON-ready data of the value that a handler returned."""
    if type(value) in (list, tuple):
        return [as_json(item) for item in value]
    if isinstance(value, JobResource):
        return _job(value)
    to_data = by_type_name(_CONVERTERS, value)
    if to_data:
        return to_az_json(to_data(value))
    if isinstance(value, Tabular):
        return value.to_data()
    return [as_json(item) for item in value] if isinstance(value, (list, tuple)) else value


def _cluster(cluster: Cluster) -> AzObject:
    return {
        **model_fields(cluster.spec),
        **_head(cluster),
        "allocationState": cluster.allocation_state.value,
        "allocationStateTransitionTime": cluster.allocation_changed,
        "currentNodeCount": cluster.node_states.total,
        "nodeStateCounts": cluster.node_states.to_wire(),
        "errors": cluster.errors or None,
    }


def _job(job: JobResource) -> AzObject:
    from batchai_magics.models.job_spec import JobSpec  # slow imports, as above
    from batchai_magics.models.toolkit_settings import toolkit_in

    spec, info = job.wire_spec, job.execution
    state = {
        **_head(job),
        "toolType": toolkit_in(spec).value,
        "jobOutputDirectoryPathSegment": job.output_path_segment,
        "executionState": job.state.value,
        "executionStateTransitionTime": format_time(job.state_changed),
        "executionInfo": info
        and {
            "endTime": format_time(info.ended) if info.ended else None,
            "errors": list(map(_error, info.errors)) or None,
            "exitCode": info.exit_code,
            "startTime": format_time(info.started),
        },
    }
    published = _completed({**_fields_with_nulls(JobSpec, spec), **state})
    extensions: AzObject = {}  # follow the fields of the published API
    if job.waiting or job.attempts:
        extensions[WAITING] = job.waiting or None
        extensions[ATTEMPTS] = [attempt.to_wire() for attempt in job.attempts] or None
    if job.cost:
        extensions |= {COST: round(job.cost.amount, COST_DIGITS), CURRENCY: job.cost.currency}
    return published | extensions if extensions else published


def _head(resource: Workspace | Experiment | Cluster | JobResource | FileServer) -> AzObject:
    id, provisioning = resource.id, resource.provisioning
    return {
        "id": str(id),
        "name": id.name,
        "type": id.kind.wire_type,
        "creationTime": format_time(provisioning.created),
        "provisioningState": provisioning.state.value,
        "provisioningStateTransitionTime": format_time(provisioning.changed),
    }


def _error(error: ErrorDetail) -> AzObject:
    pairs = [{"name": detail.name, "value": detail.value} for detail in error.details or ()]
    details = None if error.details is None else pairs
    return {"code": error.code, "details": details, "message": error.message}


def _file(file: OutputFile) -> AzObject:
    return {
        "name": file.name,
        "fileType": file.kind.value,
        "contentLength": file.size_bytes if file.is_file else None,
        "lastModified": file.modified,
        "downloadUrl": file.download_url,
    }


def _setup_file(file: SetupFile) -> AzObject:
    size = file.size_bytes if file.is_file else None
    url = file.download_url
    return {"name": file.name, "isDirectory": file.is_directory, "size": size, "downloadUrl": url}


def _share_file(file: ShareFile) -> AzObject:
    length = file.size_bytes if file.is_file else None
    return {
        "name": file.path if isinstance(file, Blob) else file.path.rpartition("/")[2],
        "properties": {"contentLength": length, "lastModified": file.modified},
        "type": "dir" if file.is_directory else file.kind.value,
    }


_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "Workspace": lambda workspace: {
        **_head(workspace),
        "location": workspace.location,
        "tags": dict(workspace.tags) or None,
    },
    "Experiment": _head,
    "Cluster": _cluster,
    "FileServer": lambda server: {
        **model_fields(server.spec),
        **_head(server),
        "mountSettings": server.mount,
    },
    "Node": lambda node: {"nodeId": node.id, "ipAddress": node.ip_address, "port": node.port},
    **dict.fromkeys(("Usage", "ResourceGroup", "StorageAccount"), lambda value: value.to_wire()),
    "SetupFile": _setup_file,
    "OutputFile": _file,
    "ShareFile": _share_file,
    "ErrorDetail": _error,
}
