"""Which files a line is about: one, or all of a folder that fit a pattern."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path

from batchai_magics.backends.base import Copy, ShareFile
from batchai_magics.commands.azure.bucket import Bucket
from batchai_magics.commands.azure.transfer import Folder
from batchai_magics.errors import UsageError
from batchai_magics.models.file_names import text_of
from batchai_magics.options.option_parsing import relative_path


def one_up(source: str, there: str) -> Copy:
    """A file to upload; `there` is its path on the share."""
    here = Path(source).expanduser()
    if here.is_dir():
        raise UsageError(f"{source} is a folder", hint="Use upload-batch for all files in it.")
    if not here.is_file():
        raise UsageError(f"there is no file {here.absolute()}")
    return Copy(here, there, here.stat().st_size)


def all_up(source: str, below: str, pattern: str | None, *, place: str = "share") -> list[Copy]:
    """The files of a folder, to upload below a path.

    As in `az`, a link to a file stands for the file and a link to a folder is not followed. Unlike `az`, a
    link that leads out of the folder is refused, as is one that leads nowhere: nothing goes up unseen.
    """
    root = Path(source).expanduser()
    if not root.is_dir():
        raise UsageError(f"--source: there is no folder {root.absolute()}")
    base = relative_path(below, "--destination-path", place=place)
    return [
        Copy(Path(entry.path), f"{base}/{text_of(name)}".lstrip("/"), entry.stat().st_size)
        for name, entry in sorted(_all_below(root, ""))
        if _fits(name, pattern) and _is_own_file(entry, root)
    ]


def _all_below(folder: Path | os.DirEntry[str], above: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """All but folders, however deep, by path below the first folder."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _all_below(entry, f"{above}{entry.name}/")
            elif not entry.is_dir():
                yield f"{above}{entry.name}", entry


def _is_own_file(entry: os.DirEntry[str], root: Path) -> bool:
    """Whether it is a file (no pipe or socket); a UsageError for a link that leads elsewhere."""
    if entry.is_symlink():
        path = Path(entry.path)
        target = path.resolve()
        if not target.is_relative_to(root.resolve()):
            hint = "Put the file itself there, upload it alone, or leave it out with --pattern."
            raise UsageError(f"--source: the link {path} leads out of {root}, to {target}", hint=hint)
        if not target.exists():
            raise UsageError(f"--source: the link {path} leads nowhere: there is no {target}")
    return entry.is_file()


def one_down(file: ShareFile, destination: str | None) -> Copy:
    """A file to download: to a path, into a folder, or into the working folder."""
    name = file.path.rpartition("/")[2]
    target = Path(destination or ".").expanduser()
    is_folder = target.is_dir() or (destination or "").endswith("/")
    return Copy(target / name if is_folder else target, file.path, file.size_bytes)


def all_down(bucket: Bucket, destination: str, *, below: str, pattern: str | None) -> list[Copy]:
    """The files below a path of the share, to download into a folder."""
    folder = Folder(Path(destination))
    return [
        Copy(folder.inside(file.path), file.path, file.size_bytes)
        for file in bucket.files(below)
        if _fits(file.path, pattern)
    ]


def fitting(bucket: Bucket, pattern: str | None) -> list[str]:
    """The paths of all files that fit."""
    return [file.path for file in bucket.files() if _fits(file.path, pattern)]


def named(path: str | None, source: str, is_folder: Callable[[str], bool], *, option: str) -> str:
    """The path that an uploaded file gets: a folder is one that ends in `/` or that is there."""
    name = Path(source).name
    if not path:
        return name
    clean = relative_path(path, option, place="share")
    if not clean or path.endswith("/") or is_folder(clean):
        return f"{clean}/{name}".lstrip("/")
    return clean


def _fits(name: str, pattern: str | None) -> bool:
    return pattern is None or fnmatch(name, pattern)
