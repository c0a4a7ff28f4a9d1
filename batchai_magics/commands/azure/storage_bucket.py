"""Buckets (file shares and blob containers): how a line names them, and the operations that both have."""

from __future__ import annotations

import os
import re
from argparse import Namespace
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from batchai_magics.backends.base import Copy, ShareFile, Storage
from batchai_magics.commands.command_context import Context
from batchai_magics.commands.output.command_progress import BYTES, Operation
from batchai_magics.commands.specs.shared_options import BucketKind
from batchai_magics.config import DEFAULT_ACCOUNT
from batchai_magics.errors import NotFoundError, StorageError, UsageError
from batchai_magics.models.file_names import text_of
from batchai_magics.options.option_parsing import relative_path

_NO_RESOURCE = "ResourceNotFound"
_URL = re.compile(r"https?://([^./]+)[^/]*/([^?]*).*")
_DEPTH = 64  # deeper nesting is a link cycle


@dataclass(frozen=True)
class BucketAddress:
    """A bucket and a path in it, of the account if one is given."""

    name: str
    path: str
    account: str = ""

    @classmethod
    def of(cls, text: str, below: str | None) -> BucketAddress:
        """The address of `data`, `data/logs` or the URL of either, its path joined with another one."""
        url = _URL.fullmatch(text)
        account, address = url.groups() if url else ("", text)
        name, _, path = address.strip("/").partition("/")
        return cls(name, "/".join(filter(None, (path, below))), account)


@dataclass(frozen=True)
class Bucket:
    """A share or container: its storage, and its name as `NAME` or `ACCOUNT/NAME`."""

    storage: Storage
    name: str

    @property
    def is_there(self) -> bool:
        """Whether the bucket exists."""
        return self.storage.has(self.name)

    def file(self, path: str) -> ShareFile:
        """The file or folder at `path`; raises NotFoundError if it does not exist."""
        try:
            return self.storage.show(self.name, path)
        except NotFoundError as error:
            if error.code != _NO_RESOURCE:
                raise
            raise NotFoundError(f"The specified resource does not exist: {path!r}", code=error.code) from None

    def find(self, path: str) -> ShareFile | None:
        """The file or folder at `path`, or None."""
        try:
            return self.file(path)
        except NotFoundError:
            return None

    def files(self, path: str = "", *, depth: int = 0) -> list[ShareFile]:
        """All regular files below a folder, recursively."""
        files: list[ShareFile] = []
        for item in self.storage.list(self.name, path) if depth < _DEPTH else ():
            if item.is_directory:
                files += self.files(item.path, depth=depth + 1)
            elif item.is_file:
                files.append(item)
        return files

    def upload(self, copies: Sequence[Copy], arguments: Namespace, *, is_one: bool = False) -> Operation:
        """The upload of files; each appears once it is complete and its digest verified."""
        return _operation("Uploading", copies, self.storage.send(self.name, copies), arguments, is_one=is_one)

    def download(self, copies: Sequence[Copy], arguments: Namespace, *, is_one: bool = False) -> Operation:
        """The download of files; each appears once it is complete and its digest verified."""
        return _operation("Downloading", copies, self._fetched(copies), arguments, is_one=is_one)

    def _fetched(self, copies: Sequence[Copy]) -> Generator[int, None, list[dict[str, object]]]:
        yield from self.storage.fetch(self.name, copies)
        return [
            {"contentLength": copy.size_bytes, "name": copy.path, "path": str(copy.local_path)}
            for copy in copies
        ]

    def has(self, path: str, *, is_directory: bool) -> bool:
        """Whether the bucket contains that file or folder."""
        item = self.find(path) if self.is_there else None
        return item is not None and item.is_directory is is_directory


def open_bucket(
    context: Context, arguments: Namespace, kind: BucketKind, name: str, *, account: str = ""
) -> Bucket:
    """The share or container of that name, in `account` or the account of the line."""
    storage = context.storage if kind is BucketKind.SHARE else context.containers
    account = account or account_of(context, arguments)
    if account != DEFAULT_ACCOUNT:
        context.accounts.show(account)
        name = f"{account}/{name}"
    return Bucket(storage, name)


def bucket_names(context: Context, arguments: Namespace, storage: Storage) -> list[str]:
    """The names of the account's shares or containers."""
    account = account_of(context, arguments)
    full_names = [name.rpartition("/") for name in storage.shares()]
    return [name for owner, _, name in full_names if (owner or DEFAULT_ACCOUNT) == account]


def account_of(context: Context, arguments: Namespace) -> str:
    """The account of options, environment or settings, in that order, else the built-in one."""
    connection = arguments.connection_string or os.environ.get("AZURE_STORAGE_CONNECTION_STRING") or ""
    pieces = dict(piece.partition("=")[::2] for piece in connection.split(";"))
    name = arguments.account_name or pieces.get("AccountName") or os.environ.get("AZURE_STORAGE_ACCOUNT")
    return name or context.settings.storage_account or DEFAULT_ACCOUNT


RESUME_HINT = "Run the same line again to resume."


def check_inside(folder: Path, paths: Sequence[str]) -> None:
    """Raises StorageError for a path that is outside the folder, also through a link."""
    parents = {path.rpartition("/")[0]: path for path in paths}
    real = folder.resolve()
    outside = [path for path in paths if ".." in path.split("/")]
    outside += [
        path for above, path in parents.items() if not (folder / above).resolve().is_relative_to(real)
    ]
    if outside:
        raise StorageError(f"{outside[0]!r} is outside {folder}", hint="Nothing was written there.")


def file_upload(source: str, path: str) -> Copy:
    """The upload of one local file to `path` in a bucket."""
    local_path = Path(source).expanduser()
    if local_path.is_dir():
        raise UsageError(f"{source} is a folder", hint="Use upload-batch for all files in it.")
    if not local_path.is_file():
        raise UsageError(f"{local_path.absolute()} does not exist")
    return Copy(local_path, path, local_path.stat().st_size)


def folder_uploads(source: str, below: str, pattern: str | None, *, noun: str = "share") -> list[Copy]:
    """The uploads of a folder's files to a path.

    As in `az`, links to files are followed and links to folders are not. Unlike in `az`, a link that leads
    out of the folder or to nothing raises UsageError, so that no file is uploaded or skipped unnoticed.
    """
    root = Path(source).expanduser()
    if not root.is_dir():
        raise UsageError(f"--source: the folder {root.absolute()} does not exist")
    base = relative_path(below, "--destination-path", root=noun)
    return [
        Copy(Path(entry.path), f"{base}/{text_of(name)}".lstrip("/"), entry.stat().st_size)
        for name, entry in sorted(_walk(root, ""))
        if matches(name, pattern) and _is_file_inside(entry, root)
    ]


def _walk(folder: Path | os.DirEntry[str], above: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """All entries except folders, recursively, with their paths relative to the first folder."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(entry, f"{above}{entry.name}/")
            elif not entry.is_dir():
                yield f"{above}{entry.name}", entry


def _is_file_inside(entry: os.DirEntry[str], root: Path) -> bool:
    """Whether it is a regular file; raises UsageError for a link that is broken or leads out of `root`."""
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
    folder = Path(destination).expanduser()
    files = [file for file in bucket.files(below) if matches(file.path, pattern)]
    check_inside(folder, [file.path for file in files])
    return [Copy(folder / file.path, file.path, file.size_bytes) for file in files]


def upload_path(bucket: Bucket, path: str | None, source: str) -> str:
    """The target path of an upload; `path` is a folder if it ends in `/` or exists as one."""
    name = Path(source).name
    if not path:
        return name
    clean = relative_path(path, "--path", root="share")
    item = bucket.find(clean) if clean else None
    is_folder = not clean or path.endswith("/") or (item is not None and item.is_directory)
    return f"{clean}/{name}".lstrip("/") if is_folder else clean


def matches(name: str, pattern: str | None) -> bool:
    """Whether a name fits the pattern of a line, if it has one."""
    return pattern is None or fnmatch(name, pattern)


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


def _operation(
    title: str,
    copies: Sequence[Copy],
    steps: Generator[int, None, Sequence[Any]],
    arguments: Namespace,
    *,
    is_one: bool,
) -> Operation:
    """The operation of these steps; with `is_one` it returns the result of the only file."""
    total = sum(copy.size_bytes for copy in copies)
    chosen = _first(steps) if is_one else steps
    return Operation(title, total, BYTES, chosen, RESUME_HINT, is_quiet=arguments.no_progress)


def _first(steps: Generator[int, None, Sequence[Any]]) -> Generator[int, None, Any]:
    values = yield from steps
    return values[0]
