"""`storage container …`."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from batchai_magics.commands.azure.bucket import container, names
from batchai_magics.commands.context import Context


def create(context: Context, arguments: Namespace) -> dict[str, bool]:
    """Makes a container unless it is there."""
    return container(context, arguments, arguments.name).create()


def list_all(context: Context, arguments: Namespace) -> list[dict[str, Any]]:
    """The containers of the account."""
    return [{"name": name} for name in names(context, arguments, context.containers)]


def exists(context: Context, arguments: Namespace) -> dict[str, bool]:
    """Whether the container is there."""
    return container(context, arguments, arguments.name).exists()


def delete(context: Context, arguments: Namespace) -> dict[str, bool]:
    """Deletes the container with all in it."""
    return container(context, arguments, arguments.name).delete()
