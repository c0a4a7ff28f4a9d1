"""File operations of the ssh agent. Python 3.6.

With `again`, the operation may have been done already: the response to an earlier attempt was lost.
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

MAX_LISTED_BYTES = 1 << 12  # content of a file in a snapshot of its folder
MAX_NAMED_BYTES = 1 << 22  # content of a file requested by its path
MAX_SNAPSHOT_BYTES = 1 << 23  # content of all files in a snapshot


def status(path: str, follow: bool = True) -> "Any":
    """The metadata of a path."""
    return _status(os.stat(path, follow_symlinks=follow)), b""


def _status(info: "os.stat_result") -> "list[Any]":
    return [info.st_mode, info.st_size, info.st_mtime_ns, info.st_uid, info.st_ino, info.st_dev]


def _open_regular(path: str) -> int:
    """Opens a file that a job may have replaced; raises OSError for links and pipes, and never blocks."""
    mode = os.lstat(path).st_mode
    if stat.S_ISDIR(mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        raise OSError(errno.ELOOP, "it is not a regular file")
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.ELOOP, "it is not a regular file")
    return file


def read(path: str, offset: int, limit: int, head: int = 0) -> "Any":
    """[metadata, size of head]; the first `head` bytes followed by a range of a regular file."""
    with os.fdopen(_open_regular(path), "rb") as file:
        info = os.fstat(file.fileno())
        data = b""
        if offset <= info.st_size:  # a client may ask for more than a file system seeks to
            file.seek(offset)
            data = file.read(max(0, limit))
        first = os.pread(file.fileno(), head, 0)  # only now: it shows whether the file was replaced meanwhile
        return [_status(info), len(first)], first + data


def digest(path: str, sync: bool = False) -> "Any":
    """[SHA-256 (hex), size] of a file."""
    sha256, size = hashlib.sha256(), 0
    with os.fdopen(_open_regular(path), "rb") as file:
        if sync:
            os.fsync(file.fileno())
        for piece in iter(lambda: file.read(1 << 20), b""):
            sha256.update(piece)
            size += len(piece)
    return [sha256.hexdigest(), size], b""


def names(path: str) -> "Any":
    """The sorted names in a folder."""
    return sorted(os.listdir(path)), b""


def glob(path: str, pattern: str) -> "Any":
    """The paths below a folder that match a pattern."""
    return [str(match) for match in Path(path).glob(pattern)], b""


def entries(root: str, paths: "Any" = None, folder: "Any" = None, limit: "Any" = None) -> "Any":
    """[name, mode, size, mtime, is link] of each of `paths`, or of the first `limit` entries of `folder`.

    A link has the metadata of its target, unless that is outside `root`.
    """
    if folder is not None:
        paths = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    results = []  # type: list[Any]
    for path in paths:
        if len(results) == limit:
            break
        try:
            info = os.lstat(path)
        except FileNotFoundError:  # deleted meanwhile
            continue
        is_link = stat.S_ISLNK(info.st_mode)
        if is_link:
            info = _followed(root, path) or info
        results.append([os.path.basename(path), info.st_mode, info.st_size, info.st_mtime, is_link])
    return results, b""


def _followed(root: str, path: str) -> "Any":
    real, inside = os.path.realpath(path), os.path.realpath(root)
    try:
        return os.lstat(real) if os.path.commonpath([real, inside]) == inside else None
    except OSError:
        return None


def real(path: str) -> "Any":
    """The path with symbolic links resolved, as far as it exists."""
    return os.path.realpath(path), b""


def access(path: str) -> "Any":
    """Whether the path is writable."""
    return os.access(path, os.W_OK), b""


def snapshot(folders: "list[str]", files: "list[str]", listed: "list[str]") -> "Any":
    """The files of folders with their resolved paths, and single files: metadata of `lstat`, and content.

    Content is sent for single files and for small files of `folders`, but not of `listed` folders.
    """
    data = bytearray()
    results = {}
    limits = [(folder, MAX_LISTED_BYTES) for folder in folders] + [(folder, 0) for folder in listed]
    for folder, most in limits:
        names_inside = []  # type: list[str]
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            names_inside = os.listdir(folder)
        records = [_snapshot_file(os.path.join(folder, name), data, most) for name in names_inside]
        results[folder] = [os.path.realpath(folder), [record for record in records if record]]
    return [results, [_snapshot_file(path, data, MAX_NAMED_BYTES) for path in files]], bytes(data)


def _snapshot_file(path: str, data: bytearray, most: int) -> "Any":
    """[name, metadata, size appended to `data`]; the size is None if the content was not appended."""
    try:
        info = os.lstat(path)
        size = None
        most = min(most, MAX_SNAPSHOT_BYTES - len(data))
        if stat.S_ISREG(info.st_mode) and info.st_size <= most:
            with os.fdopen(_open_regular(path), "rb") as file:
                read = file.read(most + 1)
            if len(read) <= most:
                data += read
                size = len(read)
        return [os.path.basename(path), _status(info), size]
    except OSError:
        return None


READ_OPERATIONS = (status, read, digest, names, glob, entries, real, access, snapshot)


def put(path: str, data: bytes, mode: int = 0o600, sync: bool = False, parents: bool = True) -> "Any":
    """Writes a file atomically; with `parents` creates missing folders."""
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
    """Writes a new file atomically; the value is False if it exists.

    Raises FileNotFoundError if the path `needs` does not exist.
    """
    if needs is not None:
        os.stat(needs)
    part = path + "." + uuid.uuid4().hex
    put(part, data, mode)
    try:
        os.link(part, path)
    except FileExistsError:
        is_own = False
        if again:
            with contextlib.suppress(OSError), os.fdopen(_open_regular(path), "rb") as file:
                is_own = file.read() == data
        return is_own, b""
    finally:
        os.unlink(part)
    return True, b""


def splice(path: str, data: bytes, offset: int, cut: bool, mode: "Any" = None) -> "Any":
    """Writes at an offset; truncates the file behind it with `cut`, creates it with a `mode`."""
    creation = 0 if mode is None else os.O_CREAT
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC | creation, 0o600 if mode is None else mode)
    with os.fdopen(file, "wb") as stream:
        stream.seek(offset)
        stream.write(data)
        stream.flush()
        if cut:
            os.ftruncate(file, offset + len(data))
    return None, b""


def link(path: str, target: str, again: bool = False) -> "Any":
    """Creates a hard link to `target`."""
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
    """Creates a symbolic link to `target`; with `exist_ok` also its folder, unless there is a link."""
    if exist_ok:
        _make_folder(os.path.dirname(path), 0o700)
    try:
        os.symlink(target, path)
    except FileExistsError:
        is_done = os.path.islink(path) and (exist_ok or os.readlink(path) == target)
        if not (is_done and (exist_ok or again)):
            raise
    return None, b""


def move(path: str, target: str, again: bool = False) -> "Any":
    """Renames, replacing the target; copies a file to another file system."""
    try:
        os.replace(path, target)
    except FileNotFoundError:
        if not (again and os.path.lexists(target)):
            raise
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        part = os.path.join(os.path.dirname(target), "." + uuid.uuid4().hex + ".part")
        shutil.copyfile(path, part)
        os.replace(part, target)
        os.unlink(path)
    return None, b""


def unlink(path: str, missing_ok: bool = False, again: bool = False) -> "Any":
    """Deletes a file or link."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        if not (missing_ok or again):
            raise
    return None, b""


def rmtree(path: str, ignore_errors: bool = False) -> "Any":
    """Deletes a folder recursively, or a link."""
    if os.path.islink(path):
        os.unlink(path)
    elif os.path.isdir(path) or not ignore_errors:
        shutil.rmtree(path, ignore_errors=ignore_errors)
    return None, b""


def mkdir(path: str, mode: int, parents: bool = False, exist_ok: bool = False, again: bool = False) -> "Any":
    """Creates a folder; with `parents` those above it, all with `mode`."""
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
        _make_single_folder(path, mode)
    except FileNotFoundError:
        if os.path.dirname(path) == path:
            raise
        _make_folder(os.path.dirname(path), mode)
        # without another recursion: below /proc it fails although the parent exists
        _make_single_folder(path, mode)


def _make_single_folder(path: str, mode: int) -> None:
    try:
        os.mkdir(path, mode)
    except FileExistsError:
        if not os.path.isdir(path):
            raise


def touch(path: str, mode: int, exist_ok: bool = True) -> "Any":
    """Creates an empty file unless it exists."""
    Path(path).touch(mode=mode, exist_ok=exist_ok)
    return None, b""


def chmod(path: str, mode: int) -> "Any":
    """Changes the permissions."""
    os.chmod(path, mode)
    return None, b""


WRITE_OPERATIONS = (put, put_new, splice, link, symlink, move, unlink, rmtree, mkdir, touch, chmod)
