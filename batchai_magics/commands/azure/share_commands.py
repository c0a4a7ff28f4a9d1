"""`storage directory …` and `storage file …`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from batchai_magics.backends.base import ShareFile
from batchai_magics.commands.azure import storage_bucket
from batchai_magics.commands.azure.storage_bucket import (
    Bucket,
    BucketAddress,
    checked_file,
    download_operation,
    open_bucket,
    upload_operation,
)
from batchai_magics.commands.command_context import Context
from batchai_magics.commands.output.command_progress import Operation
from batchai_magics.commands.specs.shared_options import BucketKind
from batchai_magics.options.option_parsing import relative_path

_KEEP = ".keep"


def create_folder(context: Context, arguments: Namespace) -> dict[str, bool]:
    """Creates a folder and its parents."""
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
    return bucket.has(path, is_directory=True)


def delete_folder(context: Context, arguments: Namespace) -> dict[str, bool]:
    """Deletes a folder with its content."""
    bucket, path = _folder(context, arguments)
    return bucket.delete_item(path)


def _folder(context: Context, arguments: Namespace) -> tuple[Bucket, str]:
    bucket = open_bucket(context, arguments, BucketKind.SHARE, arguments.share_name)
    return bucket, relative_path(arguments.name or "", "--name", place="share")


def upload(context: Context, arguments: Namespace) -> Operation:
    """Uploads a file."""
    bucket = open_bucket(context, arguments, BucketKind.SHARE, arguments.share_name)

    def is_folder(path: str) -> bool:
        item = bucket.find(path)
        return item is not None and item.is_directory

    there = storage_bucket.upload_path(arguments.path, arguments.source, is_folder, option="--path")
    return upload_operation(
        bucket, [storage_bucket.file_upload(arguments.source, there)], arguments, is_one=True
    )


def upload_batch(context: Context, arguments: Namespace) -> Operation | list[str]:
    """Uploads the files of a folder."""
    target = BucketAddress.of(arguments.destination)
    copies = storage_bucket.folder_uploads(
        arguments.source, target.below(arguments.destination_path), arguments.pattern
    )
    if arguments.dryrun:
        return [copy.path for copy in copies]
    bucket = open_bucket(context, arguments, BucketKind.SHARE, target.name, account=target.account)
    return upload_operation(bucket, copies, arguments)


def download(context: Context, arguments: Namespace) -> Operation:
    """Downloads a file."""
    bucket = open_bucket(context, arguments, BucketKind.SHARE, arguments.share_name)
    file = checked_file(bucket, relative_path(arguments.path, "--path", place="share"))
    return download_operation(
        bucket, [storage_bucket.file_download(file, arguments.dest)], arguments, is_one=True
    )


def download_batch(context: Context, arguments: Namespace) -> Operation | list[str]:
    """Downloads the files of a share or one of its folders."""
    address = BucketAddress.of(arguments.source)
    bucket = open_bucket(context, arguments, BucketKind.SHARE, address.name, account=address.account)
    below = relative_path(address.below(arguments.source_path), "--source-path", place="share")
    copies = storage_bucket.bucket_downloads(
        bucket, arguments.destination, below=below, pattern=arguments.pattern
    )
    if arguments.dryrun:
        return [copy.path for copy in copies]
    return download_operation(bucket, copies, arguments)


def list_all(context: Context, arguments: Namespace) -> Sequence[ShareFile]:
    """One level of a folder."""
    bucket = open_bucket(context, arguments, BucketKind.SHARE, arguments.share_name)
    return bucket.storage.list(bucket.name, relative_path(arguments.path or "", "--path", place="share"))


def show(context: Context, arguments: Namespace) -> ShareFile:
    """The file."""
    bucket = open_bucket(context, arguments, BucketKind.SHARE, arguments.share_name)
    return checked_file(bucket, relative_path(arguments.path, "--path", place="share"))


def exists(context: Context, arguments: Namespace) -> dict[str, bool]:
    """Whether the file exists."""
    bucket = open_bucket(context, arguments, BucketKind.SHARE, arguments.share_name)
    return bucket.has(relative_path(arguments.path, "--path", place="share"), is_directory=False)


def delete(context: Context, arguments: Namespace) -> dict[str, bool]:
    """Deletes the file."""
    bucket = open_bucket(context, arguments, BucketKind.SHARE, arguments.share_name)
    return bucket.delete_item(
        checked_file(bucket, relative_path(arguments.path, "--path", place="share")).path
    )
