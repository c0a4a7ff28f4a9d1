"""Short private folders for temporary files, in which Unix sockets fit: their paths have at most 107 bytes.

A folder is locked by the program that created it, so that the next one on the machine can recognize and
remove what a killed program has left. Standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat

from batchai_magics.launch.plan import Plan, PlanNode

TMPDIR = "TMPDIR"
MAX_LENGTH = 40  # the rest is for the sockets of multiprocessing, PyTorch, Ray and the like
ROOT = "/tmp"
_PREFIX = "b-"
_LOCK = ".batchai-lock"


class TemporaryFolder:
    """The folder for temporary files of a program's children; it is created when it is first needed."""

    def __init__(self, root: str = ROOT) -> None:
        self._root = root
        self._path = ""
        self._lock = -1

    def of_node(self, plan: Plan, node: PlanNode) -> dict[str, str]:
        """TMPDIR of the processes on a node, unless the job sets it; in containers, a private folder."""
        if is_given(plan, node):
            return {}
        preferred = "" if plan.containers.engine else node.tmpdir
        return {TMPDIR: self.path(preferred, name=str(plan.nodes.index(node))) or node.tmpdir or ROOT}

    def path(self, preferred: str, *, name: str = "0") -> str:
        """A private folder of that name; the preferred one if sockets fit in it, or if creation fails."""
        if preferred and len(preferred) <= MAX_LENGTH and os.access(preferred, os.W_OK | os.X_OK):
            return preferred
        try:
            self._path = self._path or self._make()
            folder = f"{self._path}/{name}"
            os.makedirs(folder, 0o700, exist_ok=True)  # noqa: PTH103 pathlib slows each rank
        except OSError:  # no or a full /tmp
            return preferred
        return folder if is_private(folder) else preferred

    def remove(self) -> None:
        """Removes the folder, if it was created."""
        if self._path:
            _remove(self._path)
            os.close(self._lock)
            self._path = ""

    def _make(self) -> str:
        sweep(self._root)
        path = f"{self._root}/{_PREFIX}{os.urandom(5).hex()}"
        os.mkdir(path, 0o700)  # noqa: PTH102 as above, and tempfile a fifth
        part = f"{path}/{_LOCK}.part"
        self._lock = os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        os.rename(part, f"{path}/{_LOCK}")  # noqa: PTH104 as above; another program's sweep finds it locked
        return path


def is_given(plan: Plan, node: PlanNode) -> bool:
    """Whether the job itself sets TMPDIR."""
    return TMPDIR in node.env or TMPDIR in plan.secrets


def sweep(root: str = ROOT) -> None:
    """Removes the folders on this machine whose programs were killed."""
    try:
        names = [name for name in os.listdir(root) if name.startswith(_PREFIX)]  # noqa: PTH208 as above
    except OSError:
        return
    for path in (f"{root}/{name}" for name in names):
        if is_private(path) and (lock := _abandoned_lock(path)) is not None:
            _remove(path)
            os.close(lock)


def _abandoned_lock(path: str) -> int | None:
    """Takes the lock of a folder; None if its program is alive, or the folder has no lock."""
    try:
        lock = os.open(f"{path}/{_LOCK}", os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock


def is_private(path: str) -> bool:
    """Whether the path is a folder, not a link, that belongs to this user and is closed to others."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077


def _remove(path: str) -> None:
    """Removes a private folder, its lock last; the next sweep retries what cannot be removed."""
    if not is_private(path):
        return
    with contextlib.suppress(OSError):
        for entry in [*os.scandir(path)]:
            if entry.is_dir(follow_symlinks=False):
                _remove_tree(entry.path)
            elif entry.name != _LOCK:
                os.unlink(entry.path)  # noqa: PTH108 as above
        if os.listdir(path) == [_LOCK]:  # noqa: PTH208 as above
            os.unlink(f"{path}/{_LOCK}")  # noqa: PTH108 as above
            os.rmdir(path)  # noqa: PTH106 as above


def _remove_tree(path: str) -> None:
    try:
        os.rmdir(path)  # noqa: PTH106 as above
    except OSError:  # it is not empty, which is rare
        import shutil

        shutil.rmtree(path, ignore_errors=True)  # it follows no links
