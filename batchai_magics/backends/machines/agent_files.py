"""File operations of the ssh agent. Python 3.6.

With `again` the response to an earlier attempt was lost: the operation may have been done already.
"""

import contextlib
import errno
import hashlib
import os
import shutil
import stat
import uuid
from pathlib import Path
from typing import Any

SMALL_BYTES = 1 << 12  # of a file in a folder: no larger one is told without being asked for
NAMED_BYTES = 1 << 22  # of a file that is asked for by its path
SNAPSHOT_BYTES = 1 << 23  # of all files of a snapshot: what comes then has to be asked for


def status(path: str, follow: bool = True) -> "Any":
    """What `stat` says of a path."""
    return _status(os.stat(path, follow_symlinks=follow)), b""


def _status(found: "os.stat_result") -> "list[Any]":
    return [found.st_mode, found.st_size, found.st_mtime_ns, found.st_uid, found.st_ino, found.st_dev]


def read(path: str, offset: int, limit: int, head: int = 0, regular: bool = False) -> "Any":
    """What `stat` says of an open file, how many first bytes follow, and those with a piece of it.

    A `regular` one: no link and no pipe is opened, and nothing is waited for.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | ((os.O_NONBLOCK | os.O_NOFOLLOW) if regular else 0)
    file = os.open(path, flags)
    try:
        found = os.fstat(file)
        if regular and not stat.S_ISREG(found.st_mode):
            raise OSError(errno.ELOOP, "it is no regular file")
        data = _pread(file, limit, offset)
        first = os.pread(file, head, 0) if head else b""
        return [_status(found), len(first)], first + data
    finally:
        os.close(file)


def _pread(file: int, limit: int, offset: int) -> bytes:
    pieces = []
    while limit > 0:
        piece = os.pread(file, limit, offset)
        if not piece:
            break
        pieces.append(piece)
        limit, offset = limit - len(piece), offset + len(piece)
    return b"".join(pieces)


def digest(path: str, sync: bool = False) -> "Any":
    """The SHA-256 (hex) of a file, and its size."""
    found, size = hashlib.sha256(), 0
    with open(path, "rb") as file:
        if sync:
            os.fsync(file.fileno())
        for piece in iter(lambda: file.read(1 << 20), b""):
            found.update(piece)
            size += len(piece)
    return [found.hexdigest(), size], b""


def names(path: str) -> "Any":
    """What lies in a folder."""
    return sorted(os.listdir(path)), b""


def glob(path: str, pattern: str) -> "Any":
    """What lies below a folder and has such a name."""
    return [str(found) for found in Path(path).glob(pattern)], b""


def entries(root: str, paths: "Any" = None, folder: "Any" = None, limit: "Any" = None) -> "Any":
    """Name, mode, size and time of things below `root`, or of the first `limit` in a folder; which are links.

    A link counts as what it leads to, unless that is outside.
    """
    if folder is not None:
        paths = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    told = []  # type: list[Any]
    for path in paths:
        if len(told) == limit:
            break
        try:
            found = os.lstat(path)
        except FileNotFoundError:  # it went meanwhile
            continue
        is_link = stat.S_ISLNK(found.st_mode)
        if is_link:
            found = _followed(root, path) or found
        told.append([os.path.basename(path), found.st_mode, found.st_size, found.st_mtime, is_link])
    return told, b""


def _followed(root: str, path: str) -> "Any":
    real, inside = os.path.realpath(path), os.path.realpath(root)
    try:
        return os.lstat(real) if os.path.commonpath([real, inside]) == inside else None
    except OSError:
        return None


def real(path: str) -> "Any":
    """The path without links, as far as there is one."""
    return os.path.realpath(path), b""


def access(path: str) -> "Any":
    """Whether it can be written."""
    return os.access(path, os.W_OK), b""


def snapshot(folders: "list[str]", files: "list[str]", listed: "list[str]") -> "Any":
    """What lies in folders, where they really are, and what lies at paths.

    Of each file what `lstat` says of it and, of one of the paths or a small one, its bytes; not where only a
    list is wanted.
    """
    data = bytearray()
    most = [(folder, SMALL_BYTES) for folder in folders] + [(folder, 0) for folder in listed]
    told = {folder: [os.path.realpath(folder), _inside(folder, data, size)] for folder, size in most}
    return [told, [_seen(path, data, NAMED_BYTES) for path in files]], bytes(data)


def _inside(folder: str, data: bytearray, most: int) -> "list[Any]":
    try:
        paths = [os.path.join(folder, name) for name in os.listdir(folder)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [one for one in (_seen(path, data, most) for path in paths) if one]


def _seen(path: str, data: bytearray, most: int) -> "Any":
    """Name, status, and how many bytes of it were put behind the data: None for a file that is too large."""
    try:
        found = os.lstat(path)
        size = None
        most = min(most, SNAPSHOT_BYTES - len(data))
        if stat.S_ISREG(found.st_mode) and found.st_size <= most:
            with open(path, "rb") as file:
                read = file.read(most + 1)
            if len(read) <= most:
                data += read
                size = len(read)
        return [os.path.basename(path), _status(found), size]
    except OSError:
        return None


QUERIES = (status, read, digest, names, glob, entries, real, access, snapshot)


def put(path: str, data: bytes, mode: int = 0o600, sync: bool = False, parents: bool = True) -> "Any":
    """Writes a file, whole or not at all; with `parents` it makes its folder where there is none."""
    part = os.path.join(os.path.dirname(path), "." + uuid.uuid4().hex + ".part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        file = os.open(part, flags, mode)
    except FileNotFoundError:
        if not parents:
            raise
        _make_folder(os.path.dirname(path), 0o700)
        file = os.open(part, flags, mode)
    try:
        with os.fdopen(file, "wb") as stream:
            stream.write(data)
            stream.flush()
            if sync:
                os.fsync(file)
        os.replace(part, path)
    except BaseException:
        os.unlink(part)
        raise
    return None, b""


def put_new(path: str, data: bytes, mode: int = 0o600, needs: "Any" = None, again: bool = False) -> "Any":
    """Writes a file that is not there, whole or not at all; False when it is there.

    `needs` is a path that has to be there: FileNotFoundError when it is not.
    """
    if needs is not None:
        os.stat(needs)
    part = path + "." + uuid.uuid4().hex
    put(part, data, mode)
    try:
        os.link(part, path)
    except FileExistsError:
        return bool(again and _holds(path, data)), b""
    finally:
        os.unlink(part)
    return True, b""


def _holds(path: str, data: bytes) -> bool:
    with contextlib.suppress(OSError), open(path, "rb") as file:
        return file.read() == data
    return False


def splice(path: str, data: bytes, offset: int, cut: bool, mode: "Any" = None) -> "Any":
    """Writes into a file, which ends there if it is to be `cut`; with a `mode` it is made."""
    made = 0 if mode is None else os.O_CREAT
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC | made, 0o600 if mode is None else mode)
    with os.fdopen(file, "wb") as stream:
        stream.seek(offset)
        stream.write(data)
        stream.flush()
        if cut:
            os.ftruncate(file, offset + len(data))
    return None, b""


def link(path: str, target: str, again: bool = False) -> "Any":
    """Gives the file `target` a second name."""
    try:
        os.link(target, path)
    except FileExistsError:
        if not (again and os.path.samefile(target, path)):
            raise
    except FileNotFoundError:
        if not (again and os.path.exists(path)):
            raise
    return None, b""


def symlink(path: str, target: str, exist_ok: bool = False, again: bool = False) -> "Any":
    """Makes a link to `target`; with `exist_ok` its folder too, unless there is a link."""
    if exist_ok:
        _make_folder(os.path.dirname(path), 0o700)
    try:
        os.symlink(target, path)
    except FileExistsError:
        is_it = os.path.islink(path) and (exist_ok or os.readlink(path) == target)
        if not (is_it and (exist_ok or again)):
            raise
    return None, b""


def move(path: str, target: str, again: bool = False) -> "Any":
    """Renames, in place of what had that name; a file also to another disk."""
    try:
        os.replace(path, target)
    except FileNotFoundError:
        if not (again and os.path.lexists(target)):
            raise
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        beside = os.path.join(os.path.dirname(target), "." + uuid.uuid4().hex + ".part")
        shutil.copyfile(path, beside)
        os.replace(beside, target)
        os.unlink(path)
    return None, b""


def unlink(path: str, missing_ok: bool = False, again: bool = False) -> "Any":
    """Deletes a name."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        if not (missing_ok or again):
            raise
    return None, b""


def rmtree(path: str, ignore_errors: bool = False) -> "Any":
    """Deletes a folder with all in it, or a link."""
    if os.path.islink(path):
        os.unlink(path)
    elif os.path.isdir(path) or not ignore_errors:
        shutil.rmtree(path, ignore_errors=ignore_errors)
    return None, b""


def mkdir(path: str, mode: int, parents: bool = False, exist_ok: bool = False, again: bool = False) -> "Any":
    """Makes a folder; with `parents` those above it too, all with that mode."""
    try:
        if parents:
            _make_folder(path, mode)
        else:
            os.mkdir(path, mode)
    except FileExistsError:
        if not ((exist_ok or again) and os.path.isdir(path)):
            raise
    return None, b""


def _make_folder(path: str, mode: int) -> None:
    try:
        _make_one(path, mode)
    except FileNotFoundError:
        if os.path.dirname(path) == path:
            raise
        _make_folder(os.path.dirname(path), mode)
        _make_one(path, mode)  # below /proc nothing can be made, though the folder above is there


def _make_one(path: str, mode: int) -> None:
    try:
        os.mkdir(path, mode)
    except FileExistsError:
        if not os.path.isdir(path):
            raise


def touch(path: str, mode: int, exist_ok: bool = True) -> "Any":
    """Makes an empty file where there is none."""
    Path(path).touch(mode=mode, exist_ok=exist_ok)
    return None, b""


def chmod(path: str, mode: int) -> "Any":
    """Changes who may use it."""
    os.chmod(path, mode)
    return None, b""


CHANGES = (put, put_new, splice, link, symlink, move, unlink, rmtree, mkdir, touch, chmod)
