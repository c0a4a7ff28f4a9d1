"""Unmanaged file systems: mounting by the user's commands, and removal with nodes, clusters and jobs.

A cluster's are mounted once, below its mount root, while it has nodes, since all its nodes are this machine.
A job's are mounted while it runs. State comes from the system's mount table, so that the next pass finds
what a crash left mounted.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from batchai_magics.backends.folders import private_files
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.local import process
from batchai_magics.backends.local.state import job_table, node_table
from batchai_magics.backends.local.state.node_table import NodeRow
from batchai_magics.backends.local.state.store import Store
from batchai_magics.backends.node import requirements
from batchai_magics.backends.node.ranks import termination
from batchai_magics.backends.node.ranks.leftovers import MARK, mount_mark
from batchai_magics.backends.node.ranks.rank import die_with_parent
from batchai_magics.launch.plan import Mount

PATIENCE_S = 30.0
_UNMOUNTERS = (("umount",), ("fusermount3", "-u"), ("fusermount", "-u"), ("umount", "--lazy"))


def mount_points(below: Path, mounted: Sequence[str] | None = None) -> list[Path]:
    """Those of all mount points that are at `below` or deeper, innermost first, including bind mounts."""
    inside = str(below.resolve())
    paths = _all_mounts() if mounted is None else mounted
    below_it = {path for path in paths if path == inside or path.startswith(inside + os.sep)}
    return list(map(Path, sorted(below_it, key=lambda path: -path.count(os.sep))))


def unmount(root: Path) -> None:
    """Unmounts all below `root`; busy mounts are detached lazily."""
    for path in mount_points(root):
        any(_is_done_by(program, path) for program in _UNMOUNTERS)


def _is_done_by(program: Sequence[str], path: Path) -> bool:
    try:
        line = requirements.elevated([*program, str(path)])
        return not subprocess.run(
            line, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=PATIENCE_S
        ).returncode
    except (OSError, subprocess.TimeoutExpired):  # not installed, or the server does not answer
        return False


def remove(*folders: Path) -> None:
    """Deletes folders as far as possible; keeps mounts and their parents, and does not follow links."""
    mounted = set(_all_mounts())
    for folder in folders:
        with contextlib.suppress(OSError):  # missing or not ours
            path = folder.parent.resolve() / folder.name
            if str(path) not in mounted and not path.is_symlink():
                private_files.remove_unmounted(path, mounted)


def _all_mounts() -> list[str]:
    if sys.platform == "linux":  # without /proc, the device shows most mounts
        return requirements.mount_points()
    import psutil

    return [part.mountpoint for part in psutil.disk_partitions(all=True)]


TICK_S = 0.05


def mount_for_node(store: Store, layout: Layout, node: NodeRow, mounts: Sequence[Mount]) -> str:
    """Mounts what a cluster's node needs and is not mounted yet; returns the problem, if any."""
    guid, root = node.cluster, layout.mounts(node.cluster)
    if not layout.cluster(guid).exists():
        return ""
    with exclusive(layout.cluster(guid)):
        for mount in mounts:
            path = root / mount.path
            if not _has_node(store, guid, node.id):
                return ""  # removed meanwhile: nothing would unmount it
            problem = "" if requirements.is_mounted(path) else _mount(mount.command, path, root, guid)
            if problem:
                return problem
    return ""


def _mount(command: str, path: Path, root: Path, guid: str) -> str:
    private_files.make_folder(path)
    done = subprocess.run(
        requirements.mount_line(command, path),
        env={**os.environ, "AZ_BATCHAI_MOUNT_ROOT": str(root), MARK: mount_mark(guid)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        preexec_fn=partial(die_with_parent, signal.SIGKILL),
    )
    words = (done.stderr or done.stdout).decode(errors="replace")
    return requirements.mount_problem(path, done.returncode, words)


def sweep(store: Store, layout: Layout) -> None:
    """Ends preparations of removed nodes, deletes their folders, and unmounts what is no longer used.

    That is what clusters without nodes and ended jobs left mounted. Folders of deleted clusters, which their
    last runs have used until now, are deleted.
    """
    folders = list(layout.clusters.glob("*/nodes/*"))
    with store.read() as db:  # after the listing: a node gets its row before its folder
        present = node_table.ids(db)
        unused = [path.name for path in layout.clusters.glob("*") if job_table.have_outlived(db, path.name)]
    for guid in unused:
        with contextlib.suppress(OSError):  # another process does the same
            remove_cluster(layout, guid)
    for folder in folders:
        if folder.name not in present:
            remove_node(folder)
    mounted = _all_mounts()
    for root, is_used in ((layout.clusters, _has_node), (layout.jobs, _runs)):
        inside = root.resolve()
        points = mount_points(root, mounted)
        for guid in {path.relative_to(inside).parts[0] for path in points if path != inside}:
            # The lock holder is mounting, and sweeps afterwards; or the folder is being deleted.
            with contextlib.suppress(OSError), exclusive(root / guid, wait=False):
                if not is_used(store, guid):
                    unmount(root / guid)


def remove_node(folder: Path) -> None:
    """Deletes the folder of a removed node, once nothing runs there."""
    if (folder / "setup.json").exists():
        termination.kill(lambda: process.marked(folder.name))
    remove(folder)


def remove_cluster(layout: Layout, guid: str) -> None:
    """Deletes the folder of a deleted cluster, after unmounting."""
    folder = layout.cluster(guid)
    if folder.exists():
        with exclusive(folder, meanwhile=lambda: termination.kill(lambda: process.marked(mount_mark(guid)))):
            for node in folder.glob("nodes/*"):
                remove_node(node)
            unmount(folder)
            remove(folder)


def remove_jobs(layout: Layout, guids: Sequence[str]) -> None:
    """Deletes the folders of deleted jobs, after unmounting."""
    roots = [layout.job(guid).root for guid in guids]
    for root in roots if mount_points(layout.jobs) else ():
        unmount(root)
    remove(*roots)


def _has_node(store: Store, guid: str, id: str = "") -> bool:
    """Whether a cluster has nodes, or has that node."""
    with store.read() as db:
        return node_table.has_node(db, guid, id)


def _runs(store: Store, guid: str) -> bool:
    with store.read() as db:
        return job_table.find_open(db, guid) is not None


@contextlib.contextmanager
def exclusive(
    folder: Path, *, wait: bool = True, meanwhile: Callable[[], None] | None = None
) -> Iterator[None]:
    """Locks the folder for mounting; BlockingIOError if it is locked and `wait` is False."""
    with open(folder / "mounting", "ab", opener=private_files.opener) as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not wait:
                    raise
            if meanwhile:
                meanwhile()
            time.sleep(TICK_S)
        yield
