"""`storage share …` and `storage directory …`."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from batchai_magics.backends.base import ShareFile
from batchai_magics.commands.azure import holder
from batchai_magics.commands.azure.place import Place, names, share
from batchai_magics.commands.context import Context
from batchai_magics.options.parsing import relative

_KEEP = ".keep"


def create(context: Context, arguments: Namespace) -> dict[str, bool]:
    """Makes a share unless it is there."""
    return holder.create(share(context, arguments, arguments.name))


def list_all(context: Context, arguments: Namespace) -> list[dict[str, Any]]:
    """The shares of the account."""
    return [{"name": name} for name in names(context, arguments, context.storage)]


def exists(context: Context, arguments: Namespace) -> dict[str, bool]:
    """Whether the share is there."""
    return holder.exists(share(context, arguments, arguments.name))


def delete(context: Context, arguments: Namespace) -> dict[str, bool]:
    """Deletes the share with all in it."""
    return holder.delete(share(context, arguments, arguments.name))


def create_folder(context: Context, arguments: Namespace) -> dict[str, bool]:
    """Makes a folder, and those above it."""
    place, path = _folder(context, arguments)
    is_there = place.find(path) is not None
    if not is_there:  # a share knows folders by what is in them
        place.storage.upload(place.name, {f"{path}/{_KEEP}": b""})
        place.storage.delete(place.name, f"{path}/{_KEEP}")
    return {"created": not is_there}


def list_folders(context: Context, arguments: Namespace) -> list[ShareFile]:
    """The folders in a folder."""
    place, path = _folder(context, arguments)
    return [item for item in place.storage.list(place.name, path) if item.is_directory]


def folder_exists(context: Context, arguments: Namespace) -> dict[str, bool]:
    """Whether the folder is there."""
    place, path = _folder(context, arguments)
    return holder.has(place, path, is_directory=True)


def delete_folder(context: Context, arguments: Namespace) -> dict[str, bool]:
    """Deletes a folder with all in it."""
    place, path = _folder(context, arguments)
    return holder.drop(place, path)


def _folder(context: Context, arguments: Namespace) -> tuple[Place, str]:
    place = share(context, arguments, arguments.share_name)
    return place, relative(arguments.name or "", "--name", place="share")
