"""`storage blob …`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path

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
from batchai_magics.commands.output.table_columns import Blob
from batchai_magics.commands.specs.shared_options import BucketKind
from batchai_magics.options.option_parsing import relative_path


def upload(context: Context, arguments: Namespace) -> Operation:
    """Uploads a file as a blob."""
    bucket = open_bucket(context, arguments, BucketKind.CONTAINER, arguments.container_name)
    there = relative_path(arguments.name or Path(arguments.file).name, "--name", place="container")
    return _as_blobs(upload_operation(bucket, [storage_bucket.file_upload(arguments.file, there)], arguments))


def upload_batch(context: Context, arguments: Namespace) -> Operation | list[str]:
    """Uploads the files of a folder."""
    target = BucketAddress.of(arguments.destination)
    below = target.below(arguments.destination_path)
    copies = storage_bucket.folder_uploads(arguments.source, below, arguments.pattern, place="container")
    if arguments.dryrun:
        return [copy.path for copy in copies]
    bucket = open_bucket(context, arguments, BucketKind.CONTAINER, target.name, account=target.account)
    return _as_blobs(upload_operation(bucket, copies, arguments))


def download(context: Context, arguments: Namespace) -> Operation:
    """Downloads a blob."""
    bucket, path = _blob(context, arguments)
    copy = storage_bucket.file_download(checked_file(bucket, path), arguments.file)
    return download_operation(bucket, [copy], arguments, is_one=True)


def download_batch(context: Context, arguments: Namespace) -> Operation | list[str]:
    """Downloads the blobs of a container."""
    address = BucketAddress.of(arguments.source)
    bucket = open_bucket(context, arguments, BucketKind.CONTAINER, address.name, account=address.account)
    below = relative_path(address.path, "--source", place="container")
    copies = storage_bucket.bucket_downloads(
        bucket, arguments.destination, below=below, pattern=arguments.pattern
    )
    if arguments.dryrun:
        return [copy.path for copy in copies]
    return download_operation(bucket, copies, arguments)


def list_all(context: Context, arguments: Namespace) -> Sequence[Blob]:
    """All blobs of the container."""
    bucket = open_bucket(context, arguments, BucketKind.CONTAINER, arguments.container_name)
    prefix = arguments.prefix or ""
    return [_blob_of(file) for file in bucket.files() if file.path.startswith(prefix)]


def show(context: Context, arguments: Namespace) -> Blob:
    """The blob."""
    bucket, path = _blob(context, arguments)
    return _blob_of(checked_file(bucket, path))


def exists(context: Context, arguments: Namespace) -> dict[str, bool]:
    """Whether the blob exists."""
    bucket, path = _blob(context, arguments)
    return bucket.has(path, is_directory=False)


def delete(context: Context, arguments: Namespace) -> dict[str, bool]:
    """Deletes the blob."""
    bucket, path = _blob(context, arguments)
    return bucket.delete_item(checked_file(bucket, path).path)


def _blob(context: Context, arguments: Namespace) -> tuple[Bucket, str]:
    bucket = open_bucket(context, arguments, BucketKind.CONTAINER, arguments.container_name)
    return bucket, relative_path(arguments.name, "--name", place="container")


def _blob_of(file: ShareFile) -> Blob:
    return Blob(**vars(file))


def _as_blobs(operation: Operation) -> Operation:
    def steps() -> Generator[int, None, list[Blob]]:
        files: list[ShareFile] = yield from operation.steps
        return [_blob_of(file) for file in files]

    return replace(operation, steps=steps())
