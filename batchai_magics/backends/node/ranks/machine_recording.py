"""Records the hardware and the packages of a machine, once for each machine of a run, beside its ranks.

It runs in a fork of the program that has started the ranks: starting another interpreter would take longer
than a short job.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from batchai_magics.backends.node.ranks.leftovers import read_proc, run_in_fork
from batchai_magics.launch.plan import Plan

VERSION = 1
PATIENCE_S = 2.0  # how long the end of a run waits for the record: folders of packages may be far away
_POLL_S = 0.002
_ENDINGS = (".dist-info", ".egg-info")


def start(plan: Plan, *, rank: int = 0) -> int | None:
    """Starts the recording of this machine, whose ranks are running; returns its pid.

    None if the run records no machines, or another rank of this node starts it.
    """
    node = plan.processes[rank].node
    is_first = all(process.node != node for process in plan.processes[:rank])
    if not (plan.machines and is_first):
        return None
    file = Path(plan.machines, f"{os.uname().nodename}.json")
    try:
        return run_in_fork(partial(_record, file, is_image=bool(plan.containers.engine)), signal.SIG_DFL)
    except OSError:  # no job fails for lack of a record
        return None


def finish(pid: int) -> None:
    """Waits until the recording has ended, at most `PATIENCE_S`."""
    deadline_s = time.monotonic() + PATIENCE_S
    try:
        while not os.waitpid(pid, os.WNOHANG)[0] and time.monotonic() < deadline_s:
            time.sleep(_POLL_S)
    except ChildProcessError:  # it was reaped
        return


def _record(file: Path, *, is_image: bool) -> None:
    """Writes the file atomically, unless the run's record is gone; `is_image` if ranks run in containers."""
    os.setpgid(0, 0)
    software: dict[str, object] = {"problem": "Python and packages are those of the image"}
    if not is_image:
        python = {"python": sys.version.split()[0], "executable": sys.executable}
        software = {**python, "packages": dict(sorted(dict(packages()).items()))}
    text = json.dumps({"version": VERSION, **_hardware(), **software})
    part = file.with_name(f"{file.name}.{os.getpid()}.part")
    try:
        file.parent.mkdir(mode=0o700, exist_ok=True)
        with open(part, "x", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as out:
            out.write(text)
        part.replace(file)
    except OSError:  # the job was deleted, or the disk is full: no job fails for lack of a record
        part.unlink(missing_ok=True)


def _hardware() -> dict[str, object]:
    machine = os.uname()
    distribution = next((text.strip('"') for text in _fields("/etc/os-release", "PRETTY_NAME", "=")), "")
    return {
        "name": machine.nodename,
        "system": f"{distribution} {machine.sysname} {machine.release}".strip(),
        "processor": next(_fields("/proc/cpuinfo", "model name"), machine.machine),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 0,
        "memory_bytes": memory_bytes("MemTotal") or 0,
        "gpus": [
            model
            for gpu in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information"))
            for model in _fields(str(gpu), "Model")
        ],
    }


def memory_bytes(field: str) -> int | None:
    """A field of /proc/meminfo, in bytes; None if it is missing."""
    words = read_proc("/proc/meminfo").partition(f"{field}:".encode())[2].split(maxsplit=1)
    return int(words[0]) * 1024 if words else None


def packages() -> Iterator[tuple[str, str]]:
    """Names and versions of the installed packages, from the names of their folders; reads no file."""
    # restores the default search path of packages: programs of nodes start without parts of it
    user_folders = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if sys.flags.no_site:
        import site

        # without the user's folders, which may have a `sitecustomize`
        sys.path[:] = [folder for folder in sys.path if folder not in user_folders]
        site.main()
        if sys.prefix == sys.base_prefix:  # no virtual environment
            user_folders.append(site.getusersitepackages())
    for folder in reversed([*user_folders, *sys.path]):  # the first folder of the path wins
        try:
            names = sorted(os.listdir(folder))  # noqa: PTH208  pathlib is slow
        except OSError:
            continue
        for stem, ending in map(os.path.splitext, names):
            name, _, rest = stem.partition("-")
            if ending in _ENDINGS and rest:
                yield name.replace("_", "-").lower(), rest.partition("-py")[0]


def _fields(path: str, name: str, separator: str = ":") -> Iterator[str]:
    """The values of the lines `name: value` of a file."""
    for line in read_proc(path).decode(errors="replace").splitlines():
        key, sign, value = line.partition(separator)
        if sign and key.strip() == name:
            yield value.strip()
