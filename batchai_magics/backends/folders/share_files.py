"""Single files of shares: read, written and deleted, be they of this machine or of another."""

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
from batchai_magics.backends.folders.entries import open_regular, read_piece
from batchai_magics.backends.service import private_files
from batchai_magics.backends.service.remote_path import is_remote
from batchai_magics.errors import FileChangedError

PIECE_BYTES = 4 << 20
_PUNCH_HOLE_KEEP_SIZE = 0x02 | 0x01  # flags of Linux's fallocate


def read_all(file: Path) -> bytes:
    """All of a regular file; FileChangedError when it became another one meanwhile."""
    if not is_remote(file):
        with open_regular(file) as stream:
            return stream.read()
    found = read_piece(file, 0, PIECE_BYTES)
    pieces, at = [found.data], len(found.data)
    while at < found.size:
        piece = read_piece(file, at, PIECE_BYTES)
        if piece.number != found.number or not piece.data:
            raise FileChangedError(f"{file.name} changed while it was read", hint="Try it again.")
        pieces.append(piece.data)
        at += len(piece.data)
    return b"".join(pieces)


def digest(file: Path) -> str:
    """The SHA-256 (hex) of a regular file."""
    if is_remote(file):
        read_piece(file, 0, 1)  # refuses what is none
        return file.digest()
    with open_regular(file) as stream:
        return _sha256(stream)


def put_group(parts: Path, contents: Mapping[Path, bytes]) -> None:
    """Writes small files, each whole or not at all, by way of a folder of parts."""
    if not is_remote(parts):
        copying.write_group(parts, contents)
        return
    for target, content in contents.items():
        if is_remote(target):
            target.write_atomic(content, private_files.FILE, sync=True)


def write_part(part: Path, offset: int, data: bytes) -> None:
    """The next piece of a file that is not whole yet: what is behind it goes."""
    if is_remote(part):
        return part.write_at(data, offset, cut=True, mode=private_files.FILE)
    with open(part, "ab", opener=private_files.opener) as file:
        file.truncate(offset)
        file.write(data)


def digest_of_part(part: Path) -> str:
    """The SHA-256 (hex) of a file that is on the disk by then; an empty one is made where there is none."""
    if is_remote(part):
        part.touch(mode=private_files.FILE)
        return part.digest(sync=True)
    with open(part, "ab+", opener=private_files.opener) as file:
        os.fsync(file.fileno())
        file.seek(0)
        return _sha256(file)


def resize(file: Path, size_bytes: int) -> None:
    """Cuts or lengthens a file, or makes one of zeros."""
    if is_remote(file):
        return file.write_at(b"", size_bytes, cut=True, mode=copying.ANYBODY)
    with file.open("ab") as stream:
        _check_room(stream, size_bytes)
        stream.truncate(size_bytes)


def _check_room(stream: BinaryIO, size_bytes: int) -> None:
    """Raises what the system says of a full disk for a size that its disk has no room for."""
    disk = os.fstatvfs(stream.fileno())
    if size_bytes > os.fstat(stream.fileno()).st_size + disk.f_bavail * disk.f_frsize:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def clear(file: Path, offset: int, size_bytes: int) -> None:
    """Makes zeros of a part of a file that is there, which then takes no room on the disk, if that can be."""
    if not is_remote(file):
        with file.open("r+b") as stream:
            if _punched(stream.fileno(), offset, size_bytes):
                return
    for start in range(offset, offset + size_bytes, PIECE_BYTES):
        change(file, start, bytes(min(PIECE_BYTES, offset + size_bytes - start)))


def _punched(descriptor: int, offset: int, size_bytes: int) -> bool:
    """Makes a hole in a file; False where the system, or the file system, has none."""
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None)
    fallocate = getattr(libc, "fallocate64", None) or libc.fallocate  # musl has one, of 64 bits
    place = (ctypes.c_int64(offset), ctypes.c_int64(size_bytes))
    return bool(fallocate(descriptor, _PUNCH_HOLE_KEEP_SIZE, *place) == 0)


def change(file: Path, offset: int, data: bytes) -> None:
    """Writes into a file that is there."""
    if is_remote(file):
        return file.write_at(data, offset)
    with file.open("r+b") as stream:
        stream.seek(offset)
        stream.write(data)


def is_there(item: Path) -> bool:
    """Whether something is there, be it a link to nothing."""
    return item.is_symlink() or item.exists()


def remove(item: Path) -> None:
    """Deletes a file, a link, or a folder with all in it."""
    if is_remote(item):
        item.rmtree() if item.is_dir() else item.unlink()
        return
    shutil.rmtree(item) if item.is_dir() and not item.is_symlink() else item.unlink()


def _sha256(file: BinaryIO) -> str:
    found = hashlib.sha256()
    while data := file.read(1 << 20):
        found.update(data)
    return found.hexdigest()
