"""Uploads to a share or container and downloads from it: which files, and the operation that copies them."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Callable, Generator, Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from batchai_magics.backends.base import Copy, ShareFile
from batchai_magics.commands.azure.storage_bucket import Bucket
from batchai_magics.commands.output.command_progress import BYTES, Operation
from batchai_magics.commands.output.command_result import ValueWithNotes
from batchai_magics.errors import StorageError, UsageError
from batchai_magics.models.file_names import text_of
from batchai_magics.options.option_parsing import relative_path

RESUME_HINT = "Run the same line again to resume."


def upload(bucket: Bucket, copies: Sequence[Copy]) -> Generator[int, None, Sequence[ShareFile]]:
    """Uploads files; each appears on the share once it is complete and its digest verified."""
    return bucket.storage.send(bucket.name, copies)


def download(bucket: Bucket, copies: Sequence[Copy]) -> Generator[int, None, list[dict[str, object]]]:
    """Downloads files; each appears once it is complete and its digest verified."""
    yield from bucket.storage.fetch(bucket.name, copies)
    return [
        {"contentLength": copy.size_bytes, "name": copy.path, "path": str(copy.local_path)} for copy in copies
    ]


class DownloadFolder:
    """A download folder that no file may leave, not even through a link."""

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser()
        self._real = self.path.resolve()
        self._checked: set[str] = set()  # folders already checked

    def path_of(self, path: str) -> Path:
        """`folder/path`; raises StorageError if that is outside the folder."""
        target, above = self.path / path, path.rpartition("/")[0]
        if above not in self._checked or path.endswith(".."):
            if ".." in path.split("/") or not target.parent.resolve().is_relative_to(self._real):
                raise StorageError(f"{path!r} is outside {self.path}", hint="Nothing was written there.")
            self._checked.add(above)
        return target


def file_upload(source: str, there: str) -> Copy:
    """The upload of one file to the path `there`."""
    here = Path(source).expanduser()
    if here.is_dir():
        raise UsageError(f"{source} is a folder", hint="Use upload-batch for all files in it.")
    if not here.is_file():
        raise UsageError(f"{here.absolute()} does not exist")
    return Copy(here, there, here.stat().st_size)


def folder_uploads(source: str, below: str, pattern: str | None, *, place: str = "share") -> list[Copy]:
    """The uploads of a folder's files to a path.

    As in `az`, links to files are followed and links to folders are not. Unlike in `az`, a link that leads
    out of the folder or to nothing raises UsageError, so that no file is uploaded or skipped unnoticed.
    """
    root = Path(source).expanduser()
    if not root.is_dir():
        raise UsageError(f"--source: the folder {root.absolute()} does not exist")
    base = relative_path(below, "--destination-path", place=place)
    return [
        Copy(Path(entry.path), f"{base}/{text_of(name)}".lstrip("/"), entry.stat().st_size)
        for name, entry in sorted(_walk(root, ""))
        if _matches(name, pattern) and _is_own_file(entry, root)
    ]


def _walk(folder: Path | os.DirEntry[str], above: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """All entries except folders, recursively, with their paths relative to the first folder."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(entry, f"{above}{entry.name}/")
            elif not entry.is_dir():
                yield f"{above}{entry.name}", entry


def _is_own_file(entry: os.DirEntry[str], root: Path) -> bool:
    """Whether it is a regular file; raises UsageError for a link that leads out or to nothing."""
    if entry.is_symlink():
        path = Path(entry.path)
        target = path.resolve()
        if not target.is_relative_to(root.resolve()):
            hint = "Put the file itself there, upload it alone, or leave it out with --pattern."
            raise UsageError(f"--source: the link {path} points outside {root}, to {target}", hint=hint)
        if not target.exists():
            raise UsageError(f"--source: the link {path} is broken: {target} does not exist")
    return entry.is_file()


def file_download(file: ShareFile, destination: str | None) -> Copy:
    """The download of one file to a path or folder, by default the working folder."""
    name = file.path.rpartition("/")[2]
    target = Path(destination or ".").expanduser()
    is_folder = target.is_dir() or (destination or "").endswith("/")
    return Copy(target / name if is_folder else target, file.path, file.size_bytes)


def bucket_downloads(bucket: Bucket, destination: str, *, below: str, pattern: str | None) -> list[Copy]:
    """The downloads of the files below a path into a folder."""
    folder = DownloadFolder(Path(destination))
    return [
        Copy(folder.path_of(file.path), file.path, file.size_bytes)
        for file in bucket.files(below)
        if _matches(file.path, pattern)
    ]


def matching_paths(bucket: Bucket, pattern: str | None) -> list[str]:
    """The paths of all files that match the pattern."""
    return [file.path for file in bucket.files() if _matches(file.path, pattern)]


def upload_path(path: str | None, source: str, is_folder: Callable[[str], bool], *, option: str) -> str:
    """The target path of an upload; `path` is a folder if it ends in `/` or exists as one."""
    name = Path(source).name
    if not path:
        return name
    clean = relative_path(path, option, place="share")
    if not clean or path.endswith("/") or is_folder(clean):
        return f"{clean}/{name}".lstrip("/")
    return clean


def _matches(name: str, pattern: str | None) -> bool:
    return pattern is None or fnmatch(name, pattern)


def deletion(bucket: Bucket, arguments: Namespace) -> Operation | list[str]:
    """The operation that deletes the files that match a line's `--pattern`."""
    paths = matching_paths(bucket, arguments.pattern)
    if arguments.dryrun:
        return paths
    steps = _delete_all(bucket, paths)
    return Operation("Deleting", len(paths), "file", steps, RESUME_HINT, is_quiet=arguments.no_progress)


def _delete_all(bucket: Bucket, paths: Sequence[str]) -> Generator[int, None, ValueWithNotes]:
    for path in paths:
        bucket.storage.delete(bucket.name, path)
        yield 1
    return ValueWithNotes(None, (f"{len(paths)} file{'' if len(paths) == 1 else 's'} deleted.",))


def checked_file(bucket: Bucket, path: str) -> ShareFile:
    """The regular file at that path; raises UsageError for anything else."""
    item = bucket.file(path)
    if item.is_directory:
        raise UsageError(
            f"{path} is a folder, not a file", hint="The commands ending in -batch take folders."
        )
    if not item.is_file:
        raise UsageError(f"{path} is {item.kind.words}, not a file", hint="It has no content to copy.")
    return item


def upload_operation(
    bucket: Bucket, copies: Sequence[Copy], arguments: Namespace, *, is_one: bool = False
) -> Operation:
    """The operation that uploads these files."""
    steps = upload(bucket, copies)
    return _operation("Uploading", copies, _first(steps) if is_one else steps, arguments)


def download_operation(
    bucket: Bucket, copies: Sequence[Copy], arguments: Namespace, *, is_one: bool = False
) -> Operation:
    """The operation that downloads these files."""
    steps = download(bucket, copies)
    return _operation("Downloading", copies, _first(steps) if is_one else steps, arguments)


def _operation(
    title: str, copies: Sequence[Copy], steps: Generator[int, None, Any], arguments: Namespace
) -> Operation:
    total = sum(copy.size_bytes for copy in copies)
    return Operation(title, total, BYTES, steps, RESUME_HINT, is_quiet=arguments.no_progress)


def _first(steps: Generator[int, None, Sequence[Any]]) -> Generator[int, None, Any]:
    values = yield from steps
    return values[0]
