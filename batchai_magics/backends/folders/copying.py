"""Files of this machine become files of a share, and the other way: each whole or not at all."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
import sys
import uuid
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from batchai_magics.backends.base import Copy, ShareFile
from batchai_magics.backends.base.default_transfers import Unfinished, naming, spoiled
from batchai_magics.backends.folders import checked_copy
from batchai_magics.backends.folders.checked_copy import ChangedError, DamagedError, copied
from batchai_magics.backends.folders.entries import checked_name, inside
from batchai_magics.backends.service import api_errors, private_files
from batchai_magics.errors import StorageError, is_disk_full
from batchai_magics.models.execution import FileKind

GROUP_FILES, GROUP_BYTES = 500, 64 << 20  # that are made safe on the disk together
ANYBODY = 0o666  # as far as the process's own mask allows


@dataclass(frozen=True)
class Route:
    """The way of one file: from where, where it lies until it is whole, and to where.

    Paths are texts here: of thousands of small files `pathlib` would take more time than the system.
    """

    copy: Copy
    source: str
    part: str
    target: str


class Targets:
    """Where files lie below a folder, links followed; each folder below it is looked at once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._parents: dict[str, str] = {}

    def of(self, path: str) -> str:
        """The place of a file; a StorageError when it would lie outside of the folder."""
        parent, _, name = path.strip("/").rpartition("/")
        if name in ("", ".", ".."):
            return str(inside(self._root, path))
        if parent not in self._parents:
            self._parents[parent] = str(inside(self._root, parent))
        target = f"{self._parents[parent]}/{checked_name(name)}"
        is_link = os.path.islink(target)  # noqa: PTH114 pathlib is slow
        return str(inside(self._root, path)) if is_link else target


def groups(copies: Iterable[Copy]) -> Iterator[list[Copy]]:
    """The files in groups that are few and small enough to be made safe together."""
    group: list[Copy] = []
    size_bytes = 0
    for copy in copies:
        if group and (len(group) == GROUP_FILES or size_bytes + copy.size_bytes > GROUP_BYTES):
            yield group
            group, size_bytes = [], 0
        group.append(copy)
        size_bytes += copy.size_bytes
    if group:
        yield group


def group_up(routes: Sequence[Route]) -> Generator[int, None, list[ShareFile]]:
    """Copies a group of files to a share. Those that are whole get their places, also when another fails."""
    whole: list[tuple[Route, os.stat_result]] = []
    files: list[ShareFile] = []
    try:
        for route in routes:
            with _naming_source(route.copy):
                found = yield from _copied(route, private_files.FILE)
                whole.append((route, found))
    finally:
        _make_safe([route.part for route, _ in whole])
        for route, found in whole:
            move(route.part, route.target)
            modified = datetime.fromtimestamp(found.st_mtime, timezone.utc)
            files.append(ShareFile(route.copy.there, FileKind.FILE, found.st_size, modified))
    return files


def write_group(parts: Path, contents: Mapping[Path, bytes]) -> None:
    """Writes files that are small, by way of a folder of parts. None gets its place before all are safe."""
    private_files.make_folder(parts)
    written = {target: parts / uuid.uuid4().hex for target in contents}
    try:
        for target, part in written.items():
            with open(part, "wb", opener=private_files.opener) as file:
                file.write(contents[target])
        _make_safe([str(part) for part in written.values()])
        for target, part in written.items():
            move(str(part), str(target))
    finally:
        for part in written.values():
            part.unlink(missing_ok=True)


def all_down(folder: Path, share: str, copies: Sequence[Copy]) -> Iterator[int]:
    """Copies files of a share to their places outside of it."""
    targets, unfinished = Targets(folder), Unfinished()
    run = uuid.uuid4().hex
    for copy in copies:
        source = targets.of(copy.there)
        with naming(copy, "written"):
            try:
                target = str(copy.here)
                part = Unfinished.path(target, _identity(share, copy, source, run))
                yield from _copied(Route(copy, source, part, target), ANYBODY)
            except FileNotFoundError:
                if Path(source).exists():
                    raise
                raise api_errors.no_file_of_share(share, copy.there) from None
            os.replace(part, target)  # noqa: PTH105 as above
            unfinished.drop(target)


def _identity(share: str, copy: Copy, source: str, run: str) -> str:
    """What tells a file from another one of its name; a small one is this download's alone."""
    if copy.size_bytes <= checked_copy.SMALL_BYTES:
        return run
    found = Path(source).stat()
    return f"{share}/{copy.there} {found.st_size} {found.st_mtime_ns} {found.st_ino}"


def _copied(route: Route, mode: int) -> Generator[int, None, os.stat_result]:
    try:
        return (yield from copied(route.source, route.part, mode=mode))
    except ChangedError:
        raise spoiled(route.copy, is_changed=True) from None
    except DamagedError:
        raise spoiled(route.copy, is_changed=False) from None


@contextlib.contextmanager
def _naming_source(copy: Copy) -> Iterator[None]:
    """Names the file that cannot be read; that there is no room for it is the share's error."""
    try:
        with naming(copy, "read"):
            yield
    except StorageError as error:
        cause = error.__cause__
        if isinstance(cause, OSError) and is_disk_full(cause):
            raise cause from None
        raise


def move(part: str, target: str) -> None:
    """Moves a whole file to its place, which may be on another disk."""
    try:
        os.replace(part, target)  # noqa: PTH105 as above
    except FileNotFoundError:
        private_files.make_folder(Path(target).parent)
        Path(part).replace(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        beside = Path(target).with_name(f".{Path(part).name}")
        shutil.copyfile(part, beside)
        _make_safe([str(beside)])
        beside.replace(target)
        Path(part).unlink()


def _make_safe(parts: Sequence[str]) -> None:
    """Has files on the disk before they get their names; many of them at once, where the system can."""
    at_once = len(parts) > 1 and sys.platform == "linux"
    for path in [Path(parts[0]).parent] if at_once else parts:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if not at_once or ctypes.CDLL(None).syncfs(descriptor):
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
