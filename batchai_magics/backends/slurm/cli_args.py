"""Slurm's command lines and the batch script. Pure: all of it can be printed and read."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from batchai_magics.backends.slurm.node.start_line import start_words

SEPARATOR = "\x1f"  # in no name, and in no reason that a person writes
JOB_FIELDS = ("%i", "%T", "%r", "%S", "%N", "%k")
NODE_FIELDS = ("%N", "%P", "%T", "%c", "%l", "%E", "%f", "%G", "%s")
_RUN_JOB = "batchai_magics.backends.slurm.node.run_job"
_RUN_COMMAND = "batchai_magics.backends.slurm.node.run_command"

_SCRIPT = """#!/bin/bash
# The first node of a job's allocation runs this. What the job is lies in {root}
trap '' TERM
exec {line}
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
    after: str = ""  # the number of the job that has to be over first
    is_held: bool = False
    more: tuple[str, ...] = ()  # options that somebody wrote by hand

    @property
    def options(self) -> list[str]:
        """The options of sbatch; what somebody wrote by hand comes last and wins."""
        words = [
            f"--job-name={job_name(self.name)}",
            f"--comment={self.guid}",
            f"--nodes={self.node_count}",
            f"--time={self.minutes}",
            f"--output={_literal(self.log)}",
            "--open-mode=append",
            "--no-requeue",
            f"--nice={self.niceness}",
        ]
        words += [f"--partition={self.partition}"] * bool(self.partition)
        words += [f"--exclude={','.join(self.excluded)}"] * bool(self.excluded)
        words += [f"--dependency=afterany:{self.after}"] * bool(self.after)
        return [*words, *["--hold"] * self.is_held, *self.more]


def job_name(name: str) -> str:
    """What a job is called in Slurm."""
    return f"batchai-{name}"


def batch_script(root: Path, attempt: int, *, python: str, programs: Path) -> str:
    """The script that runs a job's program in place of itself."""
    words = [*start_words(python, _RUN_JOB, programs), str(root), str(attempt)]
    return _SCRIPT.format(root=root, line=shlex.join(words))


def submission(script: Path, options: Sequence[str]) -> list[str]:
    """The line that hands a script to Slurm."""
    return ["sbatch", "--parsable", "--export=ALL", *options, str(script)]


def own_jobs(user: int) -> list[str]:
    """The line that asks for a user's jobs, those that ended a moment ago among them."""
    return [
        "squeue",
        "--noheader",
        f"--user={user}",
        "--states=all",
        f"--format={SEPARATOR.join(JOB_FIELDS)}",
    ]


def all_nodes() -> list[str]:
    """The line that asks for the nodes of all partitions."""
    return ["sinfo", "--noheader", "--Node", f"--format={SEPARATOR.join(NODE_FIELDS)}"]


def version() -> list[str]:
    """The line that asks which Slurm this is; the controller is not asked."""
    return ["sinfo", "--version"]


def configuration() -> list[str]:
    """The line that asks how Slurm is set up."""
    return ["scontrol", "show", "config"]


def cancellation(number: str, *, state: str = "") -> list[str]:
    """The line that ends a job, if it is in that state."""
    return ["scancel", *([f"--state={state}"] if state else []), number]


def signal_to_script(number: str) -> list[str]:
    """The line that signals the batch script of a running job, and nothing else of it."""
    return ["scancel", "--batch", "--signal=TERM", number]


def exclusion(number: str, excluded: Sequence[str]) -> list[str]:
    """The line that says which nodes a job that waits must not have."""
    return ["scontrol", "update", f"jobid={number}", f"excnodelist={','.join(excluded)}"]


def holding(number: str, *, is_held: bool) -> list[str]:
    """The line that keeps a job that waits from starting, or lets it start."""
    return ["scontrol", "hold" if is_held else "release", number]


def beside_job(number: str, node: str) -> list[str]:
    """The options that put a command on a node of a job, beside what runs there."""
    return [f"--jobid={number}", "--overlap", f"--nodelist={node}"]


def alone(partition: str, node: str, more: Sequence[str]) -> list[str]:
    """The options that put a command on a node on which nothing of ours runs, as a job of its own."""
    return [f"--partition={partition}", f"--nodelist={node}", "--job-name=batchai-exec", *more]


def file_read(file: Path, *, node: str, partition: str, more: Sequence[str]) -> list[str]:
    """The line that has a free node tell its name, and read a file; it does not wait for the node long."""
    words = ["srun", "--nodes=1", "--ntasks=1", "--immediate=10", "--time=1", "--job-name=batchai-home-check"]
    words += [
        f"--nodelist={node}",
        "--mpi=none",
        "--chdir=/",
        *([f"--partition={partition}"] if partition else []),
        *more,
    ]
    return [*words, "/bin/sh", "-c", 'echo "$SLURMD_NODENAME"; cat "$0"', str(file)]


@dataclass(frozen=True)
class NodeCommand:
    """A shell command for a node, and the file that its exit code goes to."""

    place: Sequence[str]  # options of srun
    line: str
    code_file: Path

    def words(self, *, python: str, programs: Path) -> list[str]:
        """The line that runs it. It ends when the line's standard input does."""
        node = ["--nodes=1", "--ntasks=1", "--mpi=none", "--quiet"]
        start = start_words(python, _RUN_COMMAND, programs)
        return ["srun", *self.place, *node, *start, str(self.code_file), self.line]


def _literal(path: Path) -> str:
    """A path in which Slurm replaces nothing."""
    return str(path).replace("%", "%%")
