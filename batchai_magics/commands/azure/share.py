"""`storage share …` and `storage directory …`."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from batchai_magics.backends.base import ShareFile
from batchai_magics.commands.azure.bucket import Bucket, names, share
from batchai_magics.commands.context import Context
from batchai_magics.options.option_parsing import relative_path

_KEEP = ".keep"


def create(context: Context, arguments: Namespace) -> dict[str, bool]:
    """Makes a share unless it is there."""
    return share(context, arguments, arguments.name).create()


def list_all(context: Context, arguments: Namespace) -> list[dict[str, Any]]:
    """The shares of the account."""
    return [{"name": name} for name in names(context, arguments, context.storage)]


def exists(context: Context, arguments: Namespace) -> dict[str, bool]:
    """Whether the share is there."""
    return share(context, arguments, arguments.name).exists()


def delete(context: Context, arguments: Namespace) -> dict[str, bool]:
    """Deletes the share with all in it."""
    return share(context, arguments, arguments.name).delete()


def create_folder(context: Context, arguments: Namespace) -> dict[str, bool]:
    """Makes a folder, and those above it."""
    bucket, path = _folder(context, arguments)
    is_there = bucket.find(path) is not None
    if not is_there:  # a share knows folders by what is in them
        bucket.storage.upload(bucket.name, {f"{path}/{_KEEP}": b""})
        bucket.storage.delete(bucket.name, f"{path}/{_KEEP}")
    return {"created": not is_there}


def list_folders(context: Context, arguments: Namespace) -> list[ShareFile]:
    """The folders in a folder."""
    bucket, path = _folder(context, arguments)
    return [item for item in bucket.storage.list(bucket.name, path) if item.is_directory]


def folder_exists(context: Context, arguments: Namespace) -> dict[str, bool]:
    """Whether the folder is there."""
    bucket, path = _folder(context, arguments)
    return bucket.has(path, is_directory=True)


def delete_folder(context: Context, arguments: Namespace) -> dict[str, bool]:
    """Deletes a folder with all in it."""
    bucket, path = _folder(context, arguments)
    return bucket.delete_item(path)


def _folder(context: Context, arguments: Namespace) -> tuple[Bucket, str]:
    bucket = share(context, arguments, arguments.share_name)
    return bucket, relative_path(arguments.name or "", "--name", place="share")
