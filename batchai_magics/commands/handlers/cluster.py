"""`batchai cluster …`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from batchai_magics.commands.context import Context
from batchai_magics.commands.handlers import credentials, machines, mounts, resources, workspace
from batchai_magics.commands.handlers.mounts import auto_storage
from batchai_magics.commands.output.result import Noted
from batchai_magics.errors import command_error
from batchai_magics.models.cluster import ClusterPatch, ClusterSpec
from batchai_magics.models.documents.load import NOTHING, Description, load_file
from batchai_magics.models.ids import Kind, ResourceId
from batchai_magics.models.resources import Cluster, Resource
from batchai_magics.models.storage import with_volumes

_LESS = "Maximum nodes count must be greater or equal to minimum nodes count"


def create(context: Context, arguments: Namespace) -> Noted:
    """Makes a cluster from its file and options; what the line says wins."""
    id = context.target(arguments, Kind.CLUSTER)
    resources.refuse_second(context, id)
    described = _described(context, arguments)
    body = _body(context, arguments, id, described.body)
    notes = (*described.notes, *machines.notes(arguments))
    checked = described.checked(ClusterSpec, body)  # before anything is made
    workspace.check_size(context, checked.vm_size)
    if arguments.use_auto_storage:
        storage = auto_storage(context.backend, workspace.location(context, id))
        body = _with_volumes(body, with_volumes(_volumes(body), storage.volumes()))
        notes = (*notes, *storage.notes)
    spec = described.checked(ClusterSpec, body)
    workspace.ensure(context, id)
    made = context.backend.create(id, spec)
    return Noted(made, (*notes, *made.notes) if isinstance(made, Cluster) else notes)


def show(context: Context, arguments: Namespace) -> Resource:
    """The cluster as it stands: the one that the line names, else the session's."""
    if not (arguments.name or getattr(arguments, "ids", None)):
        arguments.name = context.settings.cluster
    return resources.show(context, arguments, Kind.CLUSTER)


def list_all(context: Context, arguments: Namespace) -> Sequence[Resource]:
    """The clusters of the workspace."""
    return resources.inside(context, context.workspace(arguments), Kind.CLUSTER)


def resize(context: Context, arguments: Namespace) -> Resource:
    """Gives a cluster another number of nodes."""
    scale = {"manual": {"targetNodeCount": arguments.target}}
    patch = ClusterPatch.from_wire({"properties": {"scaleSettings": scale}})
    return context.backend.update(context.target(arguments, Kind.CLUSTER), patch)


def auto_scale(context: Context, arguments: Namespace) -> Resource:
    """Lets a cluster grow and shrink with its queue."""
    least, most = arguments.min, arguments.max
    if most < least:
        raise command_error(_LESS)
    counts = {"minimumNodeCount": least, "maximumNodeCount": most, "initialNodeCount": 0}
    patch = ClusterPatch.from_wire({"properties": {"scaleSettings": {"autoScale": counts}}})
    return context.backend.update(context.target(arguments, Kind.CLUSTER), patch)


def delete(context: Context, arguments: Namespace) -> None:
    """Deletes a cluster."""
    resources.delete(context, arguments, Kind.CLUSTER)


def _described(context: Context, arguments: Namespace) -> Description:
    """What the cluster's file says."""
    if not arguments.config_file:
        return NOTHING
    account = credentials.account_of(context, arguments)
    return load_file(ClusterSpec, Path(arguments.config_file).expanduser(), account=account)


def _body(
    context: Context, arguments: Namespace, id: ResourceId, of_file: Mapping[str, Any]
) -> dict[str, Any]:
    """The cluster's `properties`: the file's, and what the options put in their place."""
    account = credentials.account_of(context, arguments)
    body = dict(of_file)
    image = machines.image_reference(arguments.image, arguments.custom_image)
    chosen = {
        "vmSize": arguments.vm_size,
        "vmPriority": arguments.vm_priority,
        "scaleSettings": _scale(arguments),
        "virtualMachineConfiguration": image and {"imageReference": image},
        "subnet": machines.subnet_reference(arguments.subnet),
    }
    body.update({key: value for key, value in chosen.items() if value})
    if not body.get("vmSize"):
        raise command_error("Please provide VM size", hint="Add -s, such as -s Standard_NC6.")
    if not body.get("scaleSettings"):
        raise command_error(
            "Please provide scale setting for the cluster via command line or configuration file",
            hint="Add -t with the number of nodes.",
        )
    body["userAccountSettings"] = machines.account_settings(
        arguments, body.get("userAccountSettings") or {}, context.backend
    )
    body = _with_setup_task(body, arguments)
    body = _with_volumes(body, mounts.with_mounts(_volumes(body), arguments, account, owner=id))
    body = _with_volumes(body, credentials.with_keys(_volumes(body), context.backend))
    subnet = mounts.subnet_of_servers(context, arguments.nfs, body.get("subnet"), owner=id)
    return {**body, "subnet": subnet} if subnet else body


def _with_setup_task(body: dict[str, Any], arguments: Namespace) -> dict[str, Any]:
    if not arguments.setup_task:
        return body
    if not arguments.setup_task_output:
        raise command_error("--setup-task requires providing of --setup-task-output")
    task = {"commandLine": arguments.setup_task, "stdOutErrPathPrefix": arguments.setup_task_output}
    return {**body, "nodeSetup": {**(body.get("nodeSetup") or {}), "setupTask": task}}


def _volumes(body: dict[str, Any]) -> Any:
    return (body.get("nodeSetup") or {}).get("mountVolumes")


def _with_volumes(body: dict[str, Any], volumes: Any) -> dict[str, Any]:
    if not volumes:
        return body
    return {**body, "nodeSetup": {**(body.get("nodeSetup") or {}), "mountVolumes": volumes}}


def _scale(arguments: Namespace) -> dict[str, Any] | None:
    """What -t, --min and --max say together; None when they say nothing."""
    target, bounds = arguments.target, (arguments.min, arguments.max)
    if bounds == (None, None):
        return None if target is None else {"manual": {"targetNodeCount": target}}
    if None in bounds:
        raise command_error(
            "You need to either provide both min and max node counts or not provide any of them"
        )
    return _between(*bounds, target)


def _between(least: int, most: int, target: int | None) -> dict[str, Any]:
    """Auto-scale between two counts; a fixed one where they are the same."""
    if most < least:
        raise command_error(_LESS)
    if least == most and target in (None, least):
        return {"manual": {"targetNodeCount": least}}
    counts = {"minimumNodeCount": least, "maximumNodeCount": most, "initialNodeCount": target or 0}
    return {"autoScale": counts}
