"""`storage …`: accounts, shares and containers, and their folders, files and blobs."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path

from batchai_magics.backends.base import ShareFile
from batchai_magics.commands.azure.storage_bucket import (
    RESUME_HINT,
    Bucket,
    BucketAddress,
    bucket_downloads,
    bucket_names,
    checked_file,
    file_download,
    file_upload,
    folder_uploads,
    matches,
    open_bucket,
    upload_path,
)
from batchai_magics.commands.command_context import Context
from batchai_magics.commands.output.command_progress import Operation
from batchai_magics.commands.output.command_result import ValueWithNotes
from batchai_magics.commands.output.resource_json import AzObject
from batchai_magics.commands.output.table_columns import Blob
from batchai_magics.commands.specs.shared_options import BucketKind
from batchai_magics.config import DEFAULT_ACCOUNT
from batchai_magics.errors import UsageError
from batchai_magics.models.subscription import StorageAccount
from batchai_magics.options.option_parsing import relative_path

_KEY_NUMBERS = {"primary": 1, "key1": 1, "secondary": 2, "key2": 2}
_KEEP = ".keep"


def create_account(context: Context, arguments: Namespace) -> StorageAccount:
    """Creates an account, or returns the existing one in that group."""
    if arguments.name == DEFAULT_ACCOUNT:
        hint = "Its shares and containers need no --account-name."
        raise UsageError(f"--name: {DEFAULT_ACCOUNT} is the account that is always there", hint=hint)
    settings = context.settings_for(arguments)
    location = arguments.location or context.group_location(settings.resource_group)
    sku = arguments.sku or "Standard_LRS"
    return context.accounts.create(arguments.name, settings.resource_group, location, sku)


def show_account(context: Context, arguments: Namespace) -> StorageAccount:
    """The account."""
    return context.accounts.show(arguments.name)


def list_accounts(context: Context, arguments: Namespace) -> Sequence[StorageAccount]:
    """The accounts of the group, by default all."""
    return context.accounts.list(arguments.resource_group)


def check_account_name(context: Context, arguments: Namespace) -> AzObject:
    """Whether the name is available."""
    exists = any(account.name == arguments.name for account in context.accounts.list())
    message = f"The storage account named {arguments.name} is already taken." if exists else None
    return {"message": message, "nameAvailable": not exists, "reason": "AlreadyExists" if exists else None}


def delete_account(context: Context, arguments: Namespace) -> None:
    """Deletes the account with its shares and containers."""
    context.accounts.delete(arguments.name)


def connection_string(context: Context, arguments: Namespace) -> dict[str, str]:
    """The connection string with the first key."""
    key = context.accounts.keys(arguments.name)[0]
    parts = {
        "DefaultEndpointsProtocol": "https",
        "EndpointSuffix": "core.windows.net",
        "AccountName": arguments.name,
        "AccountKey": key,
    }
    return {"connectionString": ";".join(f"{name}={value}" for name, value in parts.items())}


def account_keys(context: Context, arguments: Namespace) -> list[dict[str, str]]:
    """The two keys."""
    values = context.accounts.keys(arguments.account_name)
    return [
        {"keyName": f"key{number}", "permissions": "FULL", "value": value}
        for number, value in enumerate(values, start=1)
    ]


def renew_account_key(context: Context, arguments: Namespace) -> list[dict[str, str]]:
    """Renews a key; returns both."""
    context.accounts.renew_key(arguments.account_name, _KEY_NUMBERS[arguments.key])
    return account_keys(context, arguments)


def create_bucket(context: Context, arguments: Namespace, kind: BucketKind) -> dict[str, bool]:
    """Creates a share or container unless it exists."""
    bucket = open_bucket(context, arguments, kind, arguments.name)
    is_there = bucket.is_there
    bucket.storage.make(bucket.name)
    return {"created": not is_there}


def list_buckets(context: Context, arguments: Namespace, kind: BucketKind) -> list[AzObject]:
    """The shares or containers of the account."""
    storage = context.storage if kind is BucketKind.SHARE else context.containers
    return [{"name": name} for name in bucket_names(context, arguments, storage)]


def bucket_exists(context: Context, arguments: Namespace, kind: BucketKind) -> dict[str, bool]:
    """Whether the share or container exists."""
    return {"exists": open_bucket(context, arguments, kind, arguments.name).is_there}


def delete_bucket(context: Context, arguments: Namespace, kind: BucketKind) -> dict[str, bool]:
    """Deletes a share or container with its content."""
    bucket = open_bucket(context, arguments, kind, arguments.name)
    bucket.storage.remove(bucket.name)
    return {"deleted": True}


def create_folder(context: Context, arguments: Namespace) -> dict[str, bool]:
    """Creates a folder of a share and its parents."""
    bucket, path = _folder(context, arguments)
    is_there = bucket.find(path) is not None
    if not is_there:  # storage has no call for empty folders
        bucket.storage.upload(bucket.name, {f"{path}/{_KEEP}": b""})
        bucket.storage.delete(bucket.name, f"{path}/{_KEEP}")
    return {"created": not is_there}


def list_folders(context: Context, arguments: Namespace) -> list[ShareFile]:
    """The folders in a folder."""
    bucket, path = _folder(context, arguments)
    return [item for item in bucket.storage.list(bucket.name, path) if item.is_directory]


def folder_exists(context: Context, arguments: Namespace) -> dict[str, bool]:
    """Whether the folder exists."""
    bucket, path = _folder(context, arguments)
    return {"exists": bucket.has(path, is_directory=True)}


def delete_folder(context: Context, arguments: Namespace) -> dict[str, bool]:
    """Deletes a folder with its content."""
    bucket, path = _folder(context, arguments)
    bucket.storage.delete(bucket.name, path)
    return {"deleted": True}


def _folder(context: Context, arguments: Namespace) -> tuple[Bucket, str]:
    bucket = open_bucket(context, arguments, BucketKind.SHARE, arguments.share_name)
    return bucket, relative_path(arguments.name or "", "--name", root="share")


def upload_file(context: Context, arguments: Namespace) -> Operation:
    """Uploads a file to a share."""
    bucket = open_bucket(context, arguments, BucketKind.SHARE, arguments.share_name)
    path = upload_path(bucket, arguments.path, arguments.source)
    return bucket.upload([file_upload(arguments.source, path)], arguments, is_one=True)


def upload_blob(context: Context, arguments: Namespace) -> Operation:
    """Uploads a file as a blob."""
    bucket = open_bucket(context, arguments, BucketKind.CONTAINER, arguments.container_name)
    path = relative_path(arguments.name or Path(arguments.file).name, "--name", root="container")
    return _as_blobs(bucket.upload([file_upload(arguments.file, path)], arguments))


def upload_batch(context: Context, arguments: Namespace, kind: BucketKind) -> Operation | list[str]:
    """Uploads the files of a folder to a share or container."""
    target = BucketAddress.of(arguments.destination, arguments.destination_path)
    copies = folder_uploads(arguments.source, target.path, arguments.pattern, noun=kind.value)
    if arguments.dryrun:
        return [copy.path for copy in copies]
    bucket = open_bucket(context, arguments, kind, target.name, account=target.account)
    operation = bucket.upload(copies, arguments)
    return operation if kind is BucketKind.SHARE else _as_blobs(operation)


def _as_blobs(operation: Operation) -> Operation:
    """The same upload, with blobs as its result."""

    def steps() -> Generator[int, None, list[Blob]]:
        files: list[ShareFile] = yield from operation.steps
        return [Blob(**vars(file)) for file in files]

    return replace(operation, steps=steps())


def download(context: Context, arguments: Namespace, kind: BucketKind) -> Operation:
    """Downloads a file of a share, or a blob."""
    bucket, path = _file(context, arguments, kind)
    target = arguments.dest if kind is BucketKind.SHARE else arguments.file
    copies = [file_download(checked_file(bucket, path), target)]
    return bucket.download(copies, arguments, is_one=True)


def download_batch(context: Context, arguments: Namespace, kind: BucketKind) -> Operation | list[str]:
    """Downloads the files of a share or container, or of one of its folders."""
    address = BucketAddress.of(arguments.source, arguments.source_path)
    bucket = open_bucket(context, arguments, kind, address.name, account=address.account)
    below = relative_path(address.path, "--source-path", root=kind.value)
    copies = bucket_downloads(bucket, arguments.destination, below=below, pattern=arguments.pattern)
    if arguments.dryrun:
        return [copy.path for copy in copies]
    return bucket.download(copies, arguments)


def list_files(context: Context, arguments: Namespace) -> Sequence[ShareFile]:
    """One level of a folder of a share."""
    bucket = open_bucket(context, arguments, BucketKind.SHARE, arguments.share_name)
    return bucket.storage.list(bucket.name, relative_path(arguments.path or "", "--path", root="share"))


def list_blobs(context: Context, arguments: Namespace) -> Sequence[Blob]:
    """All blobs of the container."""
    bucket = open_bucket(context, arguments, BucketKind.CONTAINER, arguments.container_name)
    prefix = arguments.prefix or ""
    return [Blob(**vars(file)) for file in bucket.files() if file.path.startswith(prefix)]


def show(context: Context, arguments: Namespace, kind: BucketKind) -> ShareFile:
    """The file or blob."""
    file = checked_file(*_file(context, arguments, kind))
    return file if kind is BucketKind.SHARE else Blob(**vars(file))


def exists(context: Context, arguments: Namespace, kind: BucketKind) -> dict[str, bool]:
    """Whether the file or blob exists."""
    bucket, path = _file(context, arguments, kind)
    return {"exists": bucket.has(path, is_directory=False)}


def delete(context: Context, arguments: Namespace, kind: BucketKind) -> dict[str, bool]:
    """Deletes the file or blob."""
    bucket, path = _file(context, arguments, kind)
    bucket.storage.delete(bucket.name, checked_file(bucket, path).path)
    return {"deleted": True}


def _file(context: Context, arguments: Namespace, kind: BucketKind) -> tuple[Bucket, str]:
    """The share and the path of a file, or the container and the name of a blob, from the line."""
    if kind is BucketKind.SHARE:
        bucket = open_bucket(context, arguments, kind, arguments.share_name)
        return bucket, relative_path(arguments.path, "--path", root="share")
    bucket = open_bucket(context, arguments, kind, arguments.container_name)
    return bucket, relative_path(arguments.name, "--name", root="container")


def delete_batch(context: Context, arguments: Namespace, kind: BucketKind) -> Operation | list[str]:
    """Deletes the files or blobs that match a pattern."""
    bucket = open_bucket(context, arguments, kind, arguments.source)
    paths = [file.path for file in bucket.files() if matches(file.path, arguments.pattern)]
    if arguments.dryrun:
        return paths
    steps = _delete_all(bucket, paths)
    return Operation("Deleting", len(paths), "file", steps, RESUME_HINT, is_quiet=arguments.no_progress)


def _delete_all(bucket: Bucket, paths: Sequence[str]) -> Generator[int, None, ValueWithNotes]:
    for path in paths:
        bucket.storage.delete(bucket.name, path)
        yield 1
    return ValueWithNotes(None, (f"{len(paths)} file{'' if len(paths) == 1 else 's'} deleted.",))
