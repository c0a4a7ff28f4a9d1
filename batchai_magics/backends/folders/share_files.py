"""Operations on single files of shares, on this or another machine."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from batchai_magics.backends.folders import copying
from batchai_magics.backends.folders.entries import open_regular, read_slice
from batchai_magics.backends.service import private_files
from batchai_magics.backends.service.remote_path import is_remote
from batchai_magics.errors import FileChangedError

BLOCK_BYTES = 4 << 20
_PUNCH_HOLE_KEEP_SIZE = 0x02 | 0x01  # flags of Linux's fallocate


def read_all(file: Path) -> bytes:
    """Reads a whole file; FileChangedError if it is replaced meanwhile."""
    if not is_remote(file):
        with open_regular(file) as stream:
            return stream.read()
    first = read_slice(file, 0, BLOCK_BYTES)
    blocks, at = [first.data], len(first.data)
    while at < first.size:
        block = read_slice(file, at, BLOCK_BYTES)
        if block.identity != first.identity or not block.data:
            raise FileChangedError(f"{file.name} changed while it was read", hint="Try it again.")
        blocks.append(block.data)
        at += len(block.data)
    return b"".join(blocks)


def digest(file: Path) -> str:
    """The SHA-256 (hex) of a regular file."""
    if is_remote(file):
        read_slice(file, 0, 1)  # raises for other kinds
        return file.digest()
    with open_regular(file) as stream:
        return _sha256(stream)


def put_group(parts: Path, contents: Mapping[Path, bytes]) -> None:
    """Writes small files, each atomically, through a folder of temporary files."""
    if not is_remote(parts):
        copying.write_group(parts, contents)
        return
    for target, content in contents.items():
        if is_remote(target):
            target.write_atomic(content, private_files.FILE, sync=True)


def write_part(part: Path, offset: int, data: bytes) -> None:
    """Writes the next block of an incomplete file, and truncates it there."""
    if is_remote(part):
        return part.write_at(data, offset, cut=True, mode=private_files.FILE)
    with open(part, "ab", opener=private_files.opener) as file:
        file.truncate(offset)
        file.write(data)


def digest_of_part(part: Path) -> str:
    """The SHA-256 (hex) of a temporary file, after flushing it; a missing file is created."""
    if is_remote(part):
        part.touch(mode=private_files.FILE)
        return part.digest(sync=True)
    with open(part, "ab+", opener=private_files.opener) as file:
        os.fsync(file.fileno())
        file.seek(0)
        return _sha256(file)


def resize(file: Path, size_bytes: int) -> None:
    """Truncates or extends a file; creates it if necessary."""
    if is_remote(file):
        return file.write_at(b"", size_bytes, cut=True, mode=copying.DEFAULT_MODE)
    with file.open("ab") as stream:
        _check_room(stream, size_bytes)
        stream.truncate(size_bytes)


def _check_room(stream: BinaryIO, size_bytes: int) -> None:
    """Raises ENOSPC for a size for which the disk has no room."""
    disk = os.fstatvfs(stream.fileno())
    if size_bytes > os.fstat(stream.fileno()).st_size + disk.f_bavail * disk.f_frsize:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def clear(file: Path, offset: int, size_bytes: int) -> None:
    """Fills a range of an existing file with zeros, as a hole where possible."""
    if not is_remote(file):
        with file.open("r+b") as stream:
            if _punch_hole(stream.fileno(), offset, size_bytes):
                return
    for start in range(offset, offset + size_bytes, BLOCK_BYTES):
        change(file, start, bytes(min(BLOCK_BYTES, offset + size_bytes - start)))


def _punch_hole(descriptor: int, offset: int, size_bytes: int) -> bool:
    """Punches a hole; False where that is not supported."""
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None)
    fallocate = getattr(libc, "fallocate64", None) or libc.fallocate  # musl has only this one (64-bit)
    range_args = (ctypes.c_int64(offset), ctypes.c_int64(size_bytes))
    return bool(fallocate(descriptor, _PUNCH_HOLE_KEEP_SIZE, *range_args) == 0)


def change(file: Path, offset: int, data: bytes) -> None:
    """Writes into an existing file."""
    if is_remote(file):
        return file.write_at(data, offset)
    with file.open("r+b") as stream:
        stream.seek(offset)
        stream.write(data)


def exists(item: Path) -> bool:
    """Whether something exists, including a broken link."""
    return item.is_symlink() or item.exists()


def remove(item: Path) -> None:
    """Deletes a file, a link, or a folder with its contents."""
    if is_remote(item):
        item.rmtree() if item.is_dir() else item.unlink()
        return
    shutil.rmtree(item) if item.is_dir() and not item.is_symlink() else item.unlink()


def _sha256(file: BinaryIO) -> str:
    first = hashlib.sha256()
    while data := file.read(1 << 20):
        first.update(data)
    return first.hexdigest()
