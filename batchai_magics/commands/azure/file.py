"""`storage file …`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Generator, Sequence
from typing import Any

from batchai_magics.backends.base import Copy, ShareFile
from batchai_magics.commands.azure import selection, transfer
from batchai_magics.commands.azure.bucket import Address, Bucket, share
from batchai_magics.commands.context import Context
from batchai_magics.commands.output.operation import BYTES, Operation
from batchai_magics.commands.output.result import Noted
from batchai_magics.errors import UsageError
from batchai_magics.options.option_parsing import relative_path


def upload(context: Context, arguments: Namespace) -> Operation:
    """Uploads a file."""
    bucket = share(context, arguments, arguments.share_name)

    def is_folder(path: str) -> bool:
        item = bucket.find(path)
        return item is not None and item.is_directory

    there = selection.named(arguments.path, arguments.source, is_folder, option="--path")
    return going_up(bucket, [selection.one_up(arguments.source, there)], arguments, is_one=True)


def upload_batch(context: Context, arguments: Namespace) -> Operation | list[str]:
    """Uploads the files of a folder."""
    place = Address.of(arguments.destination)
    copies = selection.all_up(arguments.source, place.below(arguments.destination_path), arguments.pattern)
    if arguments.dryrun:
        return [copy.there for copy in copies]
    bucket = share(context, arguments, place.name, account=place.account)
    return going_up(bucket, copies, arguments)


def download(context: Context, arguments: Namespace) -> Operation:
    """Downloads a file."""
    bucket = share(context, arguments, arguments.share_name)
    file = checked_file(bucket, relative_path(arguments.path, "--path", place="share"))
    return going_down(bucket, [selection.one_down(file, arguments.dest)], arguments, is_one=True)


def download_batch(context: Context, arguments: Namespace) -> Operation | list[str]:
    """Downloads the files of a share, or of a folder of it."""
    place = Address.of(arguments.source)
    bucket = share(context, arguments, place.name, account=place.account)
    below = relative_path(place.below(arguments.source_path), "--source-path", place="share")
    copies = selection.all_down(bucket, arguments.destination, below=below, pattern=arguments.pattern)
    if arguments.dryrun:
        return [copy.there for copy in copies]
    return going_down(bucket, copies, arguments)


def list_all(context: Context, arguments: Namespace) -> Sequence[ShareFile]:
    """One level of a folder."""
    bucket = share(context, arguments, arguments.share_name)
    return bucket.storage.list(bucket.name, relative_path(arguments.path or "", "--path", place="share"))


def show(context: Context, arguments: Namespace) -> ShareFile:
    """The file."""
    bucket = share(context, arguments, arguments.share_name)
    return checked_file(bucket, relative_path(arguments.path, "--path", place="share"))


def exists(context: Context, arguments: Namespace) -> dict[str, bool]:
    """Whether the file is there."""
    bucket = share(context, arguments, arguments.share_name)
    return bucket.has(relative_path(arguments.path, "--path", place="share"), is_directory=False)


def delete(context: Context, arguments: Namespace) -> dict[str, bool]:
    """Deletes the file."""
    bucket = share(context, arguments, arguments.share_name)
    return bucket.delete_item(
        checked_file(bucket, relative_path(arguments.path, "--path", place="share")).path
    )


def delete_batch(context: Context, arguments: Namespace) -> Operation | list[str]:
    """Deletes the files of a share that fit."""
    return dropping(share(context, arguments, arguments.source), arguments)


def dropping(bucket: Bucket, arguments: Namespace) -> Operation | list[str]:
    """The deletion of the files that fit a line's pattern."""
    paths = selection.fitting(bucket, arguments.pattern)
    if arguments.dryrun:
        return paths
    steps = _dropping(bucket, paths)
    return Operation("Deleting", len(paths), "file", steps, transfer.AGAIN, is_quiet=arguments.no_progress)


def _dropping(bucket: Bucket, paths: Sequence[str]) -> Generator[int, None, Noted]:
    for path in paths:
        bucket.storage.delete(bucket.name, path)
        yield 1
    return Noted(None, (f"{len(paths)} file{'' if len(paths) == 1 else 's'} deleted.",))


def checked_file(bucket: Bucket, path: str) -> ShareFile:
    """The file at that path; a folder is none."""
    item = bucket.file(path)
    if item.is_directory:
        raise UsageError(
            f"{path} is a folder, not a file", hint="The commands ending in -batch take folders."
        )
    if not item.is_file:
        raise UsageError(f"{path} is {item.kind.words}, not a file", hint="It has no content to copy.")
    return item


def going_up(
    bucket: Bucket, copies: Sequence[Copy], arguments: Namespace, *, is_one: bool = False
) -> Operation:
    """The upload of these files."""
    steps = transfer.upload(bucket, copies)
    return _work("Uploading", copies, _first(steps) if is_one else steps, arguments)


def going_down(
    bucket: Bucket, copies: Sequence[Copy], arguments: Namespace, *, is_one: bool = False
) -> Operation:
    """The download of these files."""
    steps = transfer.download(bucket, copies)
    return _work("Downloading", copies, _first(steps) if is_one else steps, arguments)


def _work(
    title: str, copies: Sequence[Copy], steps: Generator[int, None, Any], arguments: Namespace
) -> Operation:
    total = sum(copy.size_bytes for copy in copies)
    return Operation(title, total, BYTES, steps, transfer.AGAIN, is_quiet=arguments.no_progress)


def _first(steps: Generator[int, None, Sequence[Any]]) -> Generator[int, None, Any]:
    values = yield from steps
    return values[0]
