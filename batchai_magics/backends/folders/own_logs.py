"""The log files that each process has of its own beside those of its job: there before it starts."""

from __future__ import annotations

from pathlib import Path

from batchai_magics.backends.service import private_files
from batchai_magics.launch.plan import LogFile, Plan, Process


def made(plan: Plan, folder: Path = Path()) -> Plan:
    """The plan with the files that its processes have of their own; a lone one's are links to the job's.

    A link costs nothing. The lines of several cannot share their bytes on the disk with the log of all: they
    are written twice, so that any program can open a process's file. Paths of the plan may be below `folder`.
    """
    return plan._replace(processes=tuple(_made(plan, process, folder) for process in plan.processes))


def _made(plan: Plan, process: Process, folder: Path) -> Process:
    if not process.own:
        return process
    paths = [folder / log.path for log in process.own]
    if len(plan.processes) == 1 and all(map(_link, paths, plan.output)):
        return process._replace(own=None)
    for path in paths:
        path.touch(mode=private_files.FILE)
    return process


def _link(path: Path, target: LogFile) -> bool:
    """Makes a link to another file of the folder; whether the file system has such."""
    try:
        path.symlink_to(Path(target.path).name)
    except FileExistsError:
        return path.is_symlink()
    except OSError:
        return False
    return True
