"""Arguments of Slurm's commands, and the batch script. Pure: all of it can be printed and tested."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from batchai_magics.backends.node.start_line import start_words

SEPARATOR = "\x1f"  # occurs in no name, nor in reasons that people write
JOB_FIELDS = ("%i", "%T", "%r", "%S", "%N", "%k")
NODE_FIELDS = ("%N", "%P", "%T", "%c", "%l", "%E", "%f", "%G", "%s")
_RUN_JOB = "batchai_magics.backends.slurm.node.run_job"
_RUN_COMMAND = "batchai_magics.backends.node.run_command"

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
    """The sbatch options of one attempt of a job."""

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
    is_array: bool = False  # then the log's path has Slurm's pattern for the task

    @property
    def options(self) -> list[str]:
        """The options of sbatch; user-supplied ones come last and take precedence."""
        args = [
            f"--job-name={job_name(self.name)}",
            f"--comment={self.guid}",
            f"--nodes={self.node_count}",
            f"--time={self.minutes}",
            f"--output={self.log if self.is_array else _literal(self.log)}",
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


@dataclass(frozen=True)
class ArrayOptions:
    """The sbatch options that make an attempt the first tasks of many: the tasks of an array.

    Attributes:
        submit: The options of each task; its `guid` is the array's.
        count: The number of tasks, which are numbered from 0.
        limit: How many tasks run at once; 0: any number.
    """

    submit: SubmitOptions
    count: int
    limit: int = 0

    @property
    def options(self) -> list[str]:
        """The options of sbatch."""
        throttle = f"%{self.limit}" * bool(self.limit)
        return [f"--array=0-{self.count - 1}{throttle}", *self.submit.options]


def array_script(folder: Path, names: Sequence[str], *, python: str, programs: Path) -> str:
    """The batch script of an array: each task runs the job in one of these folders."""
    start = shlex.join(start_words(python, _RUN_JOB, programs))
    return _ARRAY_SCRIPT.format(folder=shlex.quote(str(folder)), names=" ".join(names), start=start)


def job_name(name: str) -> str:
    """The name of a job in Slurm."""
    return f"batchai-{name}"


def batch_script(root: Path, attempt: int, *, python: str, programs: Path) -> str:
    """The batch script, which execs the program that runs the job."""
    args = [*start_words(python, _RUN_JOB, programs), str(root), str(attempt)]
    return _SCRIPT.format(root=root, line=shlex.join(args))


def sbatch_args(script: Path, options: Sequence[str]) -> list[str]:
    """The command that submits a batch script."""
    return ["sbatch", "--parsable", "--export=ALL", *options, str(script)]


def squeue_args(user: int) -> list[str]:
    """The command that lists a user's jobs, including those that ended recently."""
    return [
        "squeue",
        "--noheader",
        f"--user={user}",
        "--array",
        "--states=all",
        f"--format={SEPARATOR.join(JOB_FIELDS)}",
    ]


def sinfo_args() -> list[str]:
    """The command that lists the nodes of all partitions."""
    return ["sinfo", "--noheader", "--Node", f"--format={SEPARATOR.join(NODE_FIELDS)}"]


def version_args() -> list[str]:
    """The command that prints Slurm's version; it does not contact the controller."""
    return ["sinfo", "--version"]


def config_args() -> list[str]:
    """The command that prints Slurm's configuration."""
    return ["scontrol", "show", "config"]


def scancel_args(number: str, *, state: str = "") -> list[str]:
    """The command that cancels a job, optionally only in a given state."""
    return ["scancel", *([f"--state={state}"] if state else []), number]


def signal_args(number: str) -> list[str]:
    """The command that signals only the batch script of a running job."""
    return ["scancel", "--batch", "--signal=TERM", number]


def exclude_nodes_args(number: str, excluded: Sequence[str]) -> list[str]:
    """The command that excludes nodes for a pending job."""
    return ["scontrol", "update", f"jobid={number}", f"excnodelist={','.join(excluded)}"]


def hold_args(number: str, *, is_held: bool) -> list[str]:
    """The command that holds or releases a pending job."""
    return ["scontrol", "hold" if is_held else "release", number]


def show_job_args(number: str) -> list[str]:
    """The command that prints a job's fields."""
    return ["scontrol", "show", "job", number, "--oneliner"]


def overlap_options(number: str, node: str) -> list[str]:
    """The srun options that run a command on a node of a job, alongside its processes."""
    return [f"--jobid={number}", "--overlap", f"--nodelist={node}"]


def separate_job_options(partition: str, node: str, more: Sequence[str]) -> list[str]:
    """The srun options that run a command on an idle node, as a separate job."""
    return [f"--partition={partition}", f"--nodelist={node}", "--job-name=batchai-exec", *more]


def home_check_args(file: Path, *, node: str, partition: str, more: Sequence[str]) -> list[str]:
    """The command that has an idle node print its name and a file; it waits only briefly for the node."""
    args = ["srun", "--nodes=1", "--ntasks=1", "--immediate=10", "--time=1", "--job-name=batchai-home-check"]
    args += [
        f"--nodelist={node}",
        "--mpi=none",
        "--chdir=/",
        *([f"--partition={partition}"] if partition else []),
        *more,
    ]
    return [*args, "/bin/sh", "-c", 'echo "$SLURMD_NODENAME"; cat "$0"', str(file)]


@dataclass(frozen=True)
class SrunCommand:
    """A shell command for a node, and the file for its exit code."""

    place: Sequence[str]  # srun options
    line: str
    code_file: Path

    def args(self, *, python: str, programs: Path) -> list[str]:
        """The srun command. It ends when its standard input is closed."""
        node = ["--nodes=1", "--ntasks=1", "--mpi=none", "--quiet"]
        start = start_words(python, _RUN_COMMAND, programs)
        return ["srun", *self.place, *node, *start, str(self.code_file), self.line]


def _literal(path: Path) -> str:
    """A path with Slurm's filename patterns escaped."""
    return str(path).replace("%", "%%")
