"""Log files per process, in addition to the job's: created before the process starts."""

from __future__ import annotations

from pathlib import Path

from batchai_magics.backends.service import private_files
from batchai_magics.launch.plan import LogFile, Plan, Process


def with_own_logs(plan: Plan, folder: Path = Path()) -> Plan:
    """The plan with per-process log files; a single process's files are links to the job's logs.

    Lines of several processes are written twice, so that any program can open a process's file. Relative
    paths in the plan are below `folder`.
    """
    return plan._replace(processes=tuple(_create_logs(plan, process, folder) for process in plan.processes))


def _create_logs(plan: Plan, process: Process, folder: Path) -> Process:
    if not process.own:
        return process
    paths = [folder / log.path for log in process.own]
    if len(plan.processes) == 1 and all(map(_link, paths, plan.output)):
        return process._replace(own=None)
    for path in paths:
        path.touch(mode=private_files.FILE)
    return process


def _link(path: Path, target: LogFile) -> bool:
    """Links a file to another of the folder; False if the file system has no links."""
    try:
        path.symlink_to(Path(target.path).name)
    except FileExistsError:
        return path.is_symlink()
    except OSError:
        return False
    return True
