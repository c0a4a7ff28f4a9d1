"""Options of sbatch, and batch scripts. Pure: all of it can be printed and tested."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from batchai_magics.backends.node.node_programs import start_words

_RUN_JOB = "batchai_magics.backends.slurm.node.run_job"

_SCRIPT = """#!/bin/bash
# The first node of a job's allocation runs this. What the job is lies in {root}
trap '' TERM USR1
exec {line}
"""


_ARRAY_SCRIPT = """#!/bin/bash
# Each task of the array runs the job in one of these folders.
trap '' TERM USR1
names=({names})
exec {start} {folder}/"${{names[$SLURM_ARRAY_TASK_ID]}}" 1
"""


@dataclass(frozen=True)
class SubmitOptions:
    """The sbatch options of one attempt of a job, or of the first attempts of many: the tasks of an array.

    The tasks are numbered from 0, and `guid` and `log` are the array's.
    """

    name: str
    guid: str
    partition: str
    node_count: int
    minutes: int
    log: Path
    niceness: int = 0
    excluded: tuple[str, ...] = ()
    after: str = ""  # the number of the job that must end first
    awaited: tuple[str, ...] = ()  # conditions on other jobs, such as afterok:12
    is_held: bool = False
    is_restarted: bool = False  # whether Slurm is to queue it again when it loses its nodes
    notice_s: int = 0  # how long before its end its program is signalled; 0: never
    more: tuple[str, ...] = ()  # user-supplied options
    task_count: int = 0  # of an array
    task_limit: int = 0  # how many tasks run at once; 0: any number

    @property
    def options(self) -> list[str]:
        """The options of sbatch; user-supplied ones come last and take precedence."""
        log = str(self.log).replace("%", "%%")  # Slurm's own patterns begin with a percent sign
        throttle = f"%{self.task_limit}" * bool(self.task_limit)
        args = [f"--array=0-{self.task_count - 1}{throttle}"] * bool(self.task_count)
        args += [
            f"--job-name={job_name(self.name)}",
            f"--comment={self.guid}",
            f"--nodes={self.node_count}",
            f"--time={self.minutes}",
            f"--output={log}{'/%a' * bool(self.task_count)}",
            "--open-mode=append",
            "--requeue" if self.is_restarted else "--no-requeue",
            f"--nice={self.niceness}",
        ]
        args += [f"--signal=B:USR1@{self.notice_s}"] * bool(self.notice_s)
        args += [f"--partition={self.partition}"] * bool(self.partition)
        args += [f"--exclude={','.join(self.excluded)}"] * bool(self.excluded)
        conditions = [*[f"afterany:{self.after}"] * bool(self.after), *self.awaited]
        args += [f"--dependency={','.join(conditions)}"] * bool(conditions)
        args += ["--kill-on-invalid-dep=yes"] * bool(self.awaited)
        return [*args, *["--hold"] * self.is_held, *self.more]


def array_script(folder: Path, names: Sequence[str], *, python: str, programs: str) -> str:
    """The batch script of an array: each task runs the job in one of these folders."""
    start = shlex.join(start_words(python, _RUN_JOB, programs))
    return _ARRAY_SCRIPT.format(folder=shlex.quote(str(folder)), names=" ".join(names), start=start)


def job_name(name: str) -> str:
    """The name of a job in Slurm."""
    return f"batchai-{name}"


def batch_script(root: Path, attempt: int, *, python: str, programs: str) -> str:
    """The batch script, which execs the program that runs the job."""
    args = [*start_words(python, _RUN_JOB, programs), str(root), str(attempt)]
    return _SCRIPT.format(root=root, line=shlex.join(args))
