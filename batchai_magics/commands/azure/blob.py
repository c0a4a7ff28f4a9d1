"""`storage blob …`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path

from batchai_magics.backends.base import ShareFile
from batchai_magics.commands.azure import selection
from batchai_magics.commands.azure.bucket import Address, Bucket, container
from batchai_magics.commands.azure.file import checked_file, dropping, going_down, going_up
from batchai_magics.commands.context import Context
from batchai_magics.commands.output.columns import Blob
from batchai_magics.commands.output.operation import Operation
from batchai_magics.options.option_parsing import relative_path


def upload(context: Context, arguments: Namespace) -> Operation:
    """Uploads a file as a blob."""
    bucket = container(context, arguments, arguments.container_name)
    there = relative_path(arguments.name or Path(arguments.file).name, "--name", place="container")
    return _as_blobs(going_up(bucket, [selection.one_up(arguments.file, there)], arguments))


def upload_batch(context: Context, arguments: Namespace) -> Operation | list[str]:
    """Uploads the files of a folder."""
    place = Address.of(arguments.destination)
    below = place.below(arguments.destination_path)
    copies = selection.all_up(arguments.source, below, arguments.pattern, place="container")
    if arguments.dryrun:
        return [copy.there for copy in copies]
    bucket = container(context, arguments, place.name, account=place.account)
    return _as_blobs(going_up(bucket, copies, arguments))


def download(context: Context, arguments: Namespace) -> Operation:
    """Downloads a blob."""
    bucket, path = _blob(context, arguments)
    copy = selection.one_down(checked_file(bucket, path), arguments.file)
    return going_down(bucket, [copy], arguments, is_one=True)


def download_batch(context: Context, arguments: Namespace) -> Operation | list[str]:
    """Downloads the blobs of a container."""
    place = Address.of(arguments.source)
    bucket = container(context, arguments, place.name, account=place.account)
    below = relative_path(place.path, "--source", place="container")
    copies = selection.all_down(bucket, arguments.destination, below=below, pattern=arguments.pattern)
    if arguments.dryrun:
        return [copy.there for copy in copies]
    return going_down(bucket, copies, arguments)


def list_all(context: Context, arguments: Namespace) -> Sequence[Blob]:
    """The blobs, all levels of them."""
    bucket = container(context, arguments, arguments.container_name)
    prefix = arguments.prefix or ""
    return [_blob_of(file) for file in bucket.files() if file.path.startswith(prefix)]


def show(context: Context, arguments: Namespace) -> Blob:
    """The blob."""
    bucket, path = _blob(context, arguments)
    return _blob_of(checked_file(bucket, path))


def exists(context: Context, arguments: Namespace) -> dict[str, bool]:
    """Whether the blob is there."""
    bucket, path = _blob(context, arguments)
    return bucket.has(path, is_directory=False)


def delete(context: Context, arguments: Namespace) -> dict[str, bool]:
    """Deletes the blob."""
    bucket, path = _blob(context, arguments)
    return bucket.delete_item(checked_file(bucket, path).path)


def delete_batch(context: Context, arguments: Namespace) -> Operation | list[str]:
    """Deletes the blobs of a container that fit."""
    return dropping(container(context, arguments, arguments.source), arguments)


def _blob(context: Context, arguments: Namespace) -> tuple[Bucket, str]:
    bucket = container(context, arguments, arguments.container_name)
    return bucket, relative_path(arguments.name, "--name", place="container")


def _blob_of(file: ShareFile) -> Blob:
    return Blob(**vars(file))


def _as_blobs(operation: Operation) -> Operation:
    def steps() -> Generator[int, None, list[Blob]]:
        files: list[ShareFile] = yield from operation.steps
        return [_blob_of(file) for file in files]

    return replace(operation, steps=steps())
