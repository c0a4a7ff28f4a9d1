"""`batchai file-server …`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from batchai_magics.commands.context import Context
from batchai_magics.commands.handlers import machines, resources, workspace
from batchai_magics.commands.output.result import Noted
from batchai_magics.errors import command_error
from batchai_magics.models.documents.load import NOTHING, Description, load_file
from batchai_magics.models.file_server import FileServerSpec
from batchai_magics.models.ids import Kind
from batchai_magics.models.resources import Resource

_DISKS = {  # the option, its field, and what `az` says when there is none
    "disk_count": ("diskCount", "Please provide number of data disks (at least one disk is required)."),
    "disk_size": ("diskSizeInGB", "Please provide disk size in Gb."),
    "storage_sku": ("storageAccountType", "Please provide storage account type (storage sku)."),
}


def create(context: Context, arguments: Namespace) -> Noted:
    """Makes a file server from its file and options; what the line says wins."""
    id = context.target(arguments, Kind.FILE_SERVER)
    resources.refuse_second(context, id)
    described = _described(arguments)
    spec = described.checked(FileServerSpec, _body(context, arguments, described.body))
    workspace.ensure(context, id)
    return Noted(context.backend.create(id, spec), (*described.notes, *machines.notes(arguments)))


def show(context: Context, arguments: Namespace) -> Resource:
    """The file server as it stands."""
    return resources.show(context, arguments, Kind.FILE_SERVER)


def list_all(context: Context, arguments: Namespace) -> Sequence[Resource]:
    """The file servers of the workspace."""
    return resources.inside(context, context.workspace(arguments), Kind.FILE_SERVER)


def delete(context: Context, arguments: Namespace) -> None:
    """Deletes a file server."""
    resources.delete(context, arguments, Kind.FILE_SERVER)


def _described(arguments: Namespace) -> Description:
    if not arguments.config_file:
        return NOTHING
    return load_file(FileServerSpec, Path(arguments.config_file).expanduser())


def _body(context: Context, arguments: Namespace, of_file: Mapping[str, Any]) -> dict[str, Any]:
    """The server's `properties`: the file's, and what the options put in their place."""
    body = dict(of_file)
    chosen = {"vmSize": arguments.vm_size, "subnet": machines.subnet_reference(arguments.subnet)}
    body.update({key: value for key, value in chosen.items() if value})
    if not body.get("vmSize"):
        raise command_error("Please provide VM size.", hint="Add -s, such as -s Standard_D2.")
    ssh = dict(body.get("sshConfiguration") or {})
    account = machines.account_settings(arguments, ssh.get("userAccountSettings") or {}, context.backend)
    ssh["userAccountSettings"] = account
    return {**body, "sshConfiguration": ssh, "dataDisks": _disks(arguments, body.get("dataDisks") or {})}


def _disks(arguments: Namespace, of_file: dict[str, Any]) -> dict[str, Any]:
    disks = dict(of_file)
    for option, (field, missing) in _DISKS.items():
        value = getattr(arguments, option)
        if value is not None:
            disks[field] = value
        if not disks.get(field):
            raise command_error(missing)
    if arguments.caching_type:
        disks["cachingType"] = arguments.caching_type
    return disks
