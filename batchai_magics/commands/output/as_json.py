"""Values as `az -o json` prints them: nulls kept, keys sorted, properties on top, `resourceGroup` added."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from datetime import datetime, timezone
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, SecretStr

from batchai_magics.backends.base import OutputFile, ResourceGroup, ShareFile, StorageAccount, Usage
from batchai_magics.commands.output.columns import Blob, SetupFile
from batchai_magics.commands.output.table import Tabular
from batchai_magics.models.execution import ErrorDetail
from batchai_magics.models.file_server import FileServer
from batchai_magics.models.resources import Cluster, Experiment, JobResource, Node, Workspace
from batchai_magics.models.times import duration

if TYPE_CHECKING:
    from batchai_magics.models.provisioning import Provisioning

_GROUP = re.compile(r"/subscriptions/[^/]+/resourceGroups/([^/]+)/", re.IGNORECASE)


def as_json(value: Any) -> Any:
    """JSON-ready data of whatever a handler gave."""
    if isinstance(value, (list, tuple)):
        return [as_json(item) for item in value]
    to_data = next((make for kind, make in _MAKERS.items() if isinstance(value, kind)), None)
    if to_data:
        return _tidy(to_data(value))
    return value.to_data() if isinstance(value, Tabular) else value


def _workspace(workspace: Workspace) -> dict[str, Any]:
    extra = {"location": workspace.location, "tags": dict(workspace.tags) or None}
    return {**_head(workspace), **extra}


def _cluster(cluster: Cluster) -> dict[str, Any]:
    return {
        **_plain(cluster.spec),
        **_head(cluster),
        "allocationState": cluster.allocation_state.value,
        "allocationStateTransitionTime": cluster.allocation_changed,
        "currentNodeCount": cluster.node_states.total,
        "nodeStateCounts": cluster.node_states,
        "errors": cluster.errors or None,
    }


def _job(job: JobResource) -> dict[str, Any]:
    return {
        **_plain(job.spec),
        **_head(job),
        "toolType": job.spec.toolkit.value,
        "jobOutputDirectoryPathSegment": job.output_path_segment,
        "executionState": job.state.value,
        "executionStateTransitionTime": job.state_changed,
        "executionInfo": _execution(job),
    }


def _file_server(server: FileServer) -> dict[str, Any]:
    return {**_plain(server.spec), **_head(server), "mountSettings": server.mount}


def _node(node: Node) -> dict[str, Any]:
    return {"nodeId": node.id, "ipAddress": node.ip_address, "port": node.port}


def _wire(value: Usage | ResourceGroup | StorageAccount) -> dict[str, Any]:
    return value.to_wire()


def _execution(job: JobResource) -> dict[str, Any] | None:
    info = job.execution
    if info is None:
        return None
    errors = info.errors or None
    return {"startTime": info.started, "endTime": info.ended, "exitCode": info.exit_code, "errors": errors}


def _head(resource: Workspace | Experiment | Cluster | JobResource | FileServer) -> dict[str, Any]:
    id = resource.id
    return {"id": str(id), "name": id.name, "type": id.kind.wire_type, **_provisioning(resource.provisioning)}


def _provisioning(provisioning: Provisioning) -> dict[str, Any]:
    return {
        "creationTime": provisioning.created,
        "provisioningState": provisioning.state.value,
        "provisioningStateTransitionTime": provisioning.changed,
    }


def _file(file: OutputFile) -> dict[str, Any]:
    return {
        "name": file.name,
        "fileType": file.kind.value,
        "contentLength": file.size_bytes if file.is_file else None,
        "lastModified": file.modified,
        "downloadUrl": file.download_url,
    }


def _setup_file(file: SetupFile) -> dict[str, Any]:
    size = file.size_bytes if file.is_file else None
    url = file.download_url
    return {"name": file.name, "isDirectory": file.is_directory, "size": size, "downloadUrl": url}


def _share_file(file: ShareFile) -> dict[str, Any]:
    length = file.size_bytes if file.is_file else None
    return {
        "name": file.path if isinstance(file, Blob) else file.path.rpartition("/")[2],
        "properties": {"contentLength": length, "lastModified": file.modified},
        "type": "dir" if file.is_directory else file.kind.value,
    }


def _plain(model: BaseModel) -> dict[str, Any]:
    values = vars(model)
    return {alias: values[name] for alias, name in _aliases(type(model))}


@lru_cache(maxsize=256)
def _aliases(model: type[BaseModel]) -> tuple[tuple[str, str], ...]:
    return tuple((field.alias or name, name) for name, field in model.model_fields.items())


def _tidy(value: Any) -> Any:
    """Sorted keys, plain values, no secret, and the resource group beside every ARM id."""
    if type(value) in _AS_THEY_ARE:  # most are, in the thousands of objects of a list
        return value
    if isinstance(value, BaseModel):
        value = _plain(value)
    if isinstance(value, Mapping):
        return _tidy_object(value)
    if isinstance(value, (list, tuple)):
        return [_tidy(item) for item in value]
    return _scalar(value)


def _tidy_object(value: Mapping[str, Any]) -> dict[str, Any]:
    data = {key: _tidy(item) for key, item in value.items()}
    group = _GROUP.match(str(data["id"])) if "id" in data else None
    if group:
        data["resourceGroup"] = group[1]
    span = data.get("maxWallClockTime")
    if span:
        data["maxWallClockTime"] = str(duration(span))
    return dict(sorted(data.items()))


def _scalar(value: Any) -> Any:
    if isinstance(value, SecretStr):
        return None
    if isinstance(value, datetime):
        moment = value.astimezone(timezone.utc)
        return moment.replace(microsecond=moment.microsecond // 1000 * 1000).isoformat()
    if isinstance(value, enum.Enum):
        return value.value
    return str(value) if isinstance(value, Path) else value


_AS_THEY_ARE = {str, int, float, bool, type(None)}

_MAKERS: dict[type, Any] = {
    Workspace: _workspace,
    Experiment: _head,
    Cluster: _cluster,
    JobResource: _job,
    FileServer: _file_server,
    Node: _node,
    Usage: _wire,
    ResourceGroup: _wire,
    StorageAccount: _wire,
    SetupFile: _setup_file,
    OutputFile: _file,
    ShareFile: _share_file,
    ErrorDetail: _plain,
}
