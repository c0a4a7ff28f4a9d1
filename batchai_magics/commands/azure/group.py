"""`group …`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from batchai_magics.commands.context import Context
from batchai_magics.errors import NotFoundError, UsageError
from batchai_magics.models.subscription import ResourceGroup


def create(context: Context, arguments: Namespace) -> ResourceGroup:
    """Makes a group, or changes the tags of the one that is there."""
    tags = pairs(arguments.tags, "--tags") if arguments.tags is not None else None
    return context.groups.create(arguments.name, arguments.location or context.settings.location, tags)


def show(context: Context, arguments: Namespace) -> ResourceGroup:
    """The group."""
    return context.groups.show(arguments.name)


def list_all(context: Context, arguments: Namespace) -> Sequence[ResourceGroup]:
    """All groups."""
    return context.groups.list()


def exists(context: Context, arguments: Namespace) -> bool:
    """Whether the group is there."""
    try:
        context.groups.show(arguments.name)
    except NotFoundError:
        return False
    return True


def delete(context: Context, arguments: Namespace) -> None:
    """Deletes the group with all workspaces and storage accounts in it."""
    context.groups.delete(arguments.name)


def pairs(texts: Sequence[str], option: str) -> dict[str, str]:
    """What `NAME=VALUE` words say."""
    by_name = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not (name and sign):
            raise UsageError(f"{option}: {text!r} is no NAME=VALUE")
        by_name[name] = value
    return by_name
