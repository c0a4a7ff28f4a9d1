"""`batchai file-server …`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from batchai_magics.commands.command_context import Context
from batchai_magics.commands.handlers import machine_options, resource_commands, workspace_commands
from batchai_magics.commands.output.command_result import ValueWithNotes
from batchai_magics.errors import command_error
from batchai_magics.models.documents.description import NOTHING, Description, load_file
from batchai_magics.models.file_server import FileServerSpec
from batchai_magics.models.resource_ids import Kind
from batchai_magics.models.resources import Resource

_SSH = "properties.sshConfiguration"
_DISKS = {  # option → field, and the message of `az` where it is missing
    "disk_count": ("diskCount", "Please provide number of data disks (at least one disk is required)."),
    "disk_size": ("diskSizeInGB", "Please provide disk size in Gb."),
    "storage_sku": ("storageAccountType", "Please provide storage account type (storage sku)."),
}


def create(context: Context, arguments: Namespace) -> ValueWithNotes:
    """Creates a file server from its file and options; options override the file."""
    id = context.target(arguments, Kind.FILE_SERVER)
    resource_commands.check_is_new(context, id)
    described = _described(arguments)
    spec = described.checked(FileServerSpec, _body(context, arguments, described.body))
    workspace_commands.ensure(context, id)
    return ValueWithNotes(
        context.backend.create(id, spec), (*described.notes, *machine_options.notes(arguments))
    )


def show(context: Context, arguments: Namespace) -> Resource:
    """The file server named on the line."""
    return resource_commands.show(context, arguments, Kind.FILE_SERVER)


def list_all(context: Context, arguments: Namespace) -> Sequence[Resource]:
    """The file servers of the workspace."""
    return resource_commands.list_children(context, context.workspace(arguments), Kind.FILE_SERVER)


def delete(context: Context, arguments: Namespace) -> None:
    """Deletes a file server."""
    resource_commands.delete(context, arguments, Kind.FILE_SERVER)


def _described(arguments: Namespace) -> Description:
    if not arguments.config_file:
        return NOTHING
    return load_file(FileServerSpec, Path(arguments.config_file).expanduser())


def _body(context: Context, arguments: Namespace, of_file: Mapping[str, Any]) -> dict[str, Any]:
    """The server's `properties`: those of the file, overridden by the options."""
    body = dict(of_file)
    chosen = {"vmSize": arguments.vm_size, "subnet": machine_options.subnet_reference(arguments.subnet)}
    body.update({key: value for key, value in chosen.items() if value})
    if not body.get("vmSize"):
        raise command_error("Please provide VM size.", hint="Add -s, such as -s Standard_D2.")
    ssh = machine_options.object_of(body, "sshConfiguration", _SSH)
    of_account = machine_options.object_of(ssh, "userAccountSettings", f"{_SSH}.userAccountSettings")
    account = machine_options.account_settings(arguments, of_account, context.backend)
    ssh["userAccountSettings"] = account
    return {
        **body,
        "sshConfiguration": ssh,
        "dataDisks": _disks(arguments, machine_options.object_of(body, "dataDisks", "properties.dataDisks")),
    }


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
