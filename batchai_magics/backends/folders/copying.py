"""Copies files of this machine to a share and back, each atomically.

Each block is compared with what was written; an interrupted copy is resumed.
"""

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

from batchai_magics.backends.base import Copy, ShareFile, api_errors
from batchai_magics.backends.base.storage import PartialDownloads, naming, transfer_error
from batchai_magics.backends.folders import private_files
from batchai_magics.backends.folders.entries import checked_name, resolve_inside
from batchai_magics.errors import StorageError, is_disk_full
from batchai_magics.models.job_execution import FileKind
from batchai_magics.untrusted_files import open_file

SMALL_BYTES = 1 << 18  # files up to this size are not resumed
BLOCK_BYTES = 1 << 18  # fits into the CPU cache between reading and comparing
GROUP_FILES, GROUP_BYTES = 500, 64 << 20  # are flushed to the disk together
DEFAULT_MODE = 0o666  # restricted by the process's umask


@dataclass(frozen=True)
class CopyPaths:
    """The paths of one copy: its source, its temporary file, and its target.

    Paths are strings here: for thousands of small files, `pathlib` would take longer than the system calls.
    """

    copy: Copy
    source: str
    part: str
    target: str


class Targets:
    """Resolves paths below a folder, following links; each parent is resolved only once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._parents: dict[str, str] = {}

    def of(self, path: str) -> str:
        """The path of a file; StorageError if it is outside the folder."""
        parent, _, name = path.strip("/").rpartition("/")
        if name in ("", ".", ".."):
            return str(resolve_inside(self._root, path))
        if parent not in self._parents:
            resolve_inside(self._root, path)  # its error has the whole path
            self._parents[parent] = str(resolve_inside(self._root, parent))
        target = f"{self._parents[parent]}/{checked_name(name)}"
        is_link = os.path.islink(target)  # noqa: PTH114 pathlib is slow
        return str(resolve_inside(self._root, path)) if is_link else target


def groups(copies: Iterable[Copy]) -> Iterator[list[Copy]]:
    """Groups the files, so that each group is small enough to be flushed together."""
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


def upload_group(routes: Sequence[CopyPaths]) -> Generator[int, None, list[ShareFile]]:
    """Copies a group of files to a share. Completed ones are published even if another one fails."""
    complete: list[tuple[CopyPaths, os.stat_result]] = []
    files: list[ShareFile] = []
    try:
        for route in routes:
            with _naming_source(route.copy):
                status = yield from _copied(route, private_files.FILE)
                complete.append((route, status))
    finally:
        _flush([route.part for route, _ in complete])
        for route, status in complete:
            move(route.part, route.target)
            modified = datetime.fromtimestamp(status.st_mtime, timezone.utc)
            files.append(ShareFile(route.copy.path, FileKind.FILE, status.st_size, modified))
    return files


def write_group(parts: Path, contents: Mapping[str, bytes]) -> None:
    """Writes small files through a folder of temporary files. None is published before all are flushed."""
    private_files.make_folder(parts)
    group = uuid.uuid4().hex
    unpublished = {target: f"{parts}/{group}-{number}" for number, target in enumerate(contents)}
    try:
        for target, part in unpublished.items():
            descriptor = _open_part(part, private_files.FILE)
            try:
                _write(descriptor, contents[target], 0)
            finally:
                os.close(descriptor)
        _flush([*unpublished.values()])
        for target in contents:
            move(unpublished[target], target)
            del unpublished[target]
    finally:
        for part in unpublished.values():
            Path(part).unlink(missing_ok=True)


def download_all(folder: Path, share: str, copies: Sequence[Copy]) -> Iterator[int]:
    """Copies files of a share to this machine."""
    targets, unfinished = Targets(folder), PartialDownloads()
    download_id = uuid.uuid4().hex
    for copy in copies:
        source = targets.of(copy.path)
        with naming(copy, "written"):
            try:
                target = str(copy.local_path)
                part = PartialDownloads.path(target, _identity(share, copy, source, download_id))
                yield from _copied(CopyPaths(copy, source, part, target), DEFAULT_MODE)
            except FileNotFoundError:
                if Path(source).exists():
                    raise
                raise api_errors.no_file_of_share(share, copy.path) from None
            os.replace(part, target)  # noqa: PTH105 as above
            unfinished.drop(target)


def _identity(share: str, copy: Copy, source: str, download_id: str) -> str:
    """Identifies a version of a file; small files are identified by the download, so they are not resumed."""
    if copy.size_bytes <= SMALL_BYTES:
        return download_id
    status = Path(source).stat()
    return f"{share}/{copy.path} {status.st_size} {status.st_mtime_ns} {status.st_ino}"


def _copied(route: CopyPaths, mode: int) -> Generator[int, None, os.stat_result]:
    """Copies a file to its part; yields the number of bytes of each step, and returns the copy's status.

    StorageError, after deleting the part, if the source changed meanwhile or the copy differs from it.
    """
    with open_file(route.source, may_be_link=True) as file:
        source_fd, part_fd = file.fileno(), _open_part(route.part, mode)
        status = os.fstat(source_fd)
        try:
            yield from _copy_blocks(source_fd, part_fd, route.copy)
            after = os.fstat(source_fd)
            if (status.st_size, status.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
                raise transfer_error(route.copy, is_changed=True)
            return os.fstat(part_fd)
        except StorageError:
            Path(route.part).unlink(missing_ok=True)
            raise
        finally:
            os.close(part_fd)


def _copy_blocks(source_fd: int, part_fd: int, copy: Copy) -> Iterator[int]:
    """Copies what is missing from `part` or differs: each block is read back and compared."""
    size = os.fstat(source_fd).st_size
    os.ftruncate(part_fd, min(size, os.fstat(part_fd).st_size))
    block_bytes = max(1, min(size, BLOCK_BYTES))
    block, buffer = bytearray(block_bytes), bytearray(block_bytes)
    at = 0
    while count := os.preadv(source_fd, [block], at):
        if not _is_same(part_fd, at, block, buffer, count):
            _write(part_fd, memoryview(block)[:count], at)
            if not _is_same(part_fd, at, block, buffer, count):
                raise transfer_error(copy, is_changed=False)
        at += count
        yield count


def _is_same(descriptor: int, at: int, block: bytearray, buffer: bytearray, count: int) -> bool:
    """Whether a file has the first `count` bytes of a block at `at`; `buffer` is reused."""
    if os.preadv(descriptor, [buffer], at) < count:
        return False
    return block == buffer if count == len(block) else block[:count] == buffer[:count]


def _write(descriptor: int, data: bytes | memoryview, at: int) -> None:
    view = memoryview(data)
    while view:
        count = os.pwrite(descriptor, view, at)
        view, at = view[count:], at + count


def _open_part(part: str, mode: int) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(part, flags, mode)
    except FileNotFoundError:
        Path(part).parent.mkdir(parents=True, exist_ok=True)
        return os.open(part, flags, mode)


@contextlib.contextmanager
def _naming_source(copy: Copy) -> Iterator[None]:
    """Names the file that cannot be read; a full disk is reported as the share's error."""
    try:
        with naming(copy, "read"):
            yield
    except StorageError as error:
        cause = error.__cause__
        if isinstance(cause, OSError) and is_disk_full(cause):
            raise cause from None
        raise


def move(part: str, target: str) -> None:
    """Moves a complete file to its target, which may be on another disk."""
    try:
        os.replace(part, target)  # noqa: PTH105 as above
    except FileNotFoundError:
        private_files.make_folder(Path(target).parent)
        Path(part).replace(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        sibling = Path(target).with_name(f".{Path(part).name}")
        shutil.copyfile(part, sibling)
        _flush([str(sibling)])
        sibling.replace(target)
        Path(part).unlink()


def _flush(parts: Sequence[str]) -> None:
    """Flushes files to the disk before they are renamed, many at once where the system supports it."""
    use_syncfs = len(parts) > 1 and sys.platform == "linux"
    for path in [Path(parts[0]).parent] if use_syncfs else parts:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if not use_syncfs or ctypes.CDLL(None).syncfs(descriptor):
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
