"""`storage container …`."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from batchai_magics.commands.azure import holder
from batchai_magics.commands.azure.place import container, names
from batchai_magics.commands.context import Context


def create(context: Context, arguments: Namespace) -> dict[str, bool]:
    """Makes a container unless it is there."""
    return holder.create(container(context, arguments, arguments.name))


def list_all(context: Context, arguments: Namespace) -> list[dict[str, Any]]:
    """The containers of the account."""
    return [{"name": name} for name in names(context, arguments, context.containers)]


def exists(context: Context, arguments: Namespace) -> dict[str, bool]:
    """Whether the container is there."""
    return holder.exists(container(context, arguments, arguments.name))


def delete(context: Context, arguments: Namespace) -> dict[str, bool]:
    """Deletes the container with all in it."""
    return holder.delete(container(context, arguments, arguments.name))
