"""Changes to files, at the other end of `ssh`. Python 3.6.

With `again` nobody has heard the answer to what may have been done already: then it does no harm.
"""

import contextlib
import errno
import os
import shutil
import uuid
from pathlib import Path
from typing import Any


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
