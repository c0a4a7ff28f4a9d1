"""The settings of the Slurm backend, and its native options of jobs: which are valid, which are reserved."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePath, PurePosixPath
from typing import TYPE_CHECKING, ClassVar

from batchai_magics.config import APP, default_home, setting
from batchai_magics.errors import UsageError, did_you_mean
from batchai_magics.models.backend_options import BackendOption

if TYPE_CHECKING:
    from batchai_magics.backends.machines.machine import Machine


_LOGS = "logs go where stdOutErrPathPrefix says"
_FOUND = "it identifies the job"
_HANDED = "it controls how the job is submitted to Slurm"
# Options that the backend sets itself, and what to use instead.
OWN: Mapping[str, str] = {
    "array": "create one job for each",
    "clusters": "a job runs on the cluster of the backend",
    "comment": _FOUND,
    "container": "set the image in containerSettings",
    "error": _LOGS,
    "export": "set the variables in environmentVariables",
    "export-file": "set the variables in environmentVariables",
    "get-user-env": "set the variables in environmentVariables",
    "gid": "jobs are yours",
    "help": _HANDED,
    "hold": "resize the cluster to nothing to keep its jobs waiting",
    "input": _LOGS,
    "job-name": _FOUND,
    "nodefile": "use --nodelist",
    "nodes": "say nodeCount",
    "ntasks": "say processCount",
    "open-mode": _LOGS,
    "output": _LOGS,
    "parsable": _HANDED,
    "signal": "a signal ends the job's processes",
    "test-only": _HANDED,
    "uid": "jobs are yours",
    "usage": _HANDED,
    "version": _HANDED,
    "wait": _HANDED,
    "wrap": _HANDED,
}
# Options of the cluster: its partition and its nodes.
OF_CLUSTERS: Mapping[str, str] = {
    "partition": "the partition is the cluster's: see slurm.sizes, slurm.partition"
}
OF_FIXED: Mapping[str, str] = {
    "exclude": "a cluster with slurm.placement fixed keeps to its nodes",
    "nodelist": "a cluster with slurm.placement fixed keeps to its nodes",
}
_SHORT = {
    "a": "array",
    "A": "account",
    "C": "constraint",
    "D": "chdir",
    "e": "error",
    "F": "nodefile",
    "h": "help",
    "H": "hold",
    "i": "input",
    "J": "job-name",
    "M": "clusters",
    "n": "ntasks",
    "N": "nodes",
    "o": "output",
    "p": "partition",
    "q": "qos",
    "t": "time",
    "V": "version",
    "w": "nodelist",
    "W": "wait",
    "x": "exclude",
}
_SHORT_SWITCHES = "HhkOQsVvW"
_SWITCHES = {
    "contiguous",
    "exclusive",
    "get-user-env",
    "help",
    "hold",
    "ignore-pbs",
    "no-kill",
    "no-requeue",
    "overcommit",
    "oversubscribe",
    "parsable",
    "quiet",
    "reboot",
    "requeue",
    "spread-job",
    "stepmgr",
    "test-only",
    "usage",
    "use-min-nodes",
    "verbose",
    "version",
    "wait",
}
_LONG = re.compile(r"[a-z][a-z0-9-]*")


def slurm_words(text: str, refused: Mapping[str, str] = OWN) -> list[str]:
    """Splits a line of options; raises ValueError for a reserved or invalid one."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is not a list of options: {error}") from None
    for name in slurm_values(words):
        owner = name if name in refused else _abbreviated(name, refused)
        if owner:
            raise ValueError(f"--{owner} cannot be set: {refused[owner]}")
    return words


def slurm_values(words: Sequence[str]) -> dict[str, str]:
    """The value of each option by its long name, empty for a switch; the last one wins.

    Raises:
        ValueError: A word belongs to no option.
    """
    values, rest = dict[str, str](), iter(words)
    for word in rest:
        if not word.startswith("-") or word in ("-", "--"):
            raise ValueError(f"{word!r} is not an option")
        for name, value in _long(word) if word.startswith("--") else _short(word):
            values[name] = _next_value(word, rest) if value is None else value
    return values


def check_job_options(text: str) -> None:
    """Raises ValueError for a line of options that a job may not have on any cluster."""
    slurm_words(text, {**OWN, **OF_CLUSTERS})


SBATCH = BackendOption(
    "slurm",
    'options of sbatch, on a Slurm cluster: "--account=lab --qos=long"',
    check=check_job_options,
    elsewhere=(
        "--account",
        "--constraint",
        "--cpus-per-task",
        "--exclude",
        "--licenses",
        "--mem",
        "--mem-per-cpu",
        "--nodelist",
        "--partition",
        "--qos",
        "--reservation",
    ),
)


def _next_value(word: str, rest: Iterator[str]) -> str:
    """The next word as the value of an option; without one sbatch would take its script for it."""
    value = next(rest, "-")
    if value.startswith("-"):
        raise ValueError(f"{word} needs a value" + f": write {word}=VALUE" * word.startswith("--"))
    return value


def _long(word: str) -> Iterator[tuple[str, str | None]]:
    """Name and value in a word such as `--qos=long`; None for a value that is the next word."""
    name, sign, value = word[2:].partition("=")
    if not _LONG.fullmatch(name):
        raise ValueError(f"{word!r} is not an option")
    yield name, value if sign or name in _SWITCHES else None


def _short(word: str) -> Iterator[tuple[str, str | None]]:
    """Names and values in a word such as `-Ocgpu`; None for a value that is the next word."""
    for index, letter in enumerate(word[1:], start=2):
        name = _SHORT.get(letter, letter)
        if letter not in _SHORT_SWITCHES:
            yield name, word[index:] or None
            return
        yield name, ""


def _abbreviated(name: str, refused: Mapping[str, str]) -> str:
    """The reserved option that a name abbreviates, since sbatch accepts prefixes; empty for none."""
    if len(name) == 1 or name in _SWITCHES:
        return ""
    return next((option for option in refused if option.startswith(name)), "")


ANY, FIXED = "any", "fixed"


@dataclass(frozen=True)
class SlurmSettings:
    """The settings of the Slurm backend."""

    BACKEND_OPTIONS: ClassVar = (SBATCH,)
    home: Path = field(
        default_factory=partial(default_home, "slurm"),
        metadata={"help": "a folder that this machine and all nodes share: state, shares, logs"},
    )
    ssh: str = setting("", "a login node to reach with `ssh`, if this machine is not one")
    ssh_command: str = setting("ssh", "the program `ssh`, with options such as `ssh -F ~/cluster.conf`")
    ssh_python: str = setting("python3", "the Python on the login node, 3.6 or later")
    conf: str = setting("", "Slurm's configuration file (SLURM_CONF), where it is not the usual one")
    partition: str = setting("", "the partition of clusters; Slurm's default one when empty")
    placement: str = setting(
        "any", "`any`: Slurm chooses among all nodes of the partition; `fixed`: a cluster keeps to its own"
    )
    sizes: str = setting(
        "", "options of sbatch for VM sizes, such as `Standard_NC6=-p gpu --gres=gpu:1; Standard_D2=-p cpu`"
    )
    options: str = setting("--exclusive", "options of sbatch for every job, such as `--account=lab`")
    mpi: str = setting("pmi2", "PMI plugin of jobs on several nodes, as for `srun --mpi=`")
    python: str = setting("", "the Python of the ranks; the one that submits the job when empty")
    container_command: str = setting(
        "",
        "what runs containers on nodes, such as `apptainer`; `host` runs jobs of job files without it",
    )
    host_preparation: bool = setting(False, "run the preparations of those jobs too")
    look_s: float = setting(10.0, "seconds between two queries to Slurm, shared by all kernels of a user")
    lost_s: float = setting(
        30.0, "seconds after which a job that Slurm has ended, but that reported no status, counts as lost"
    )
    core_quota: int = setting(1000, "total number of cores of all clusters")
    disk_grace_s: float = setting(60.0, "seconds that a job on a full disk waits for room")
    scratch: str = setting(
        "",
        "a folder on the nodes' own disks that jobs run in, such as `$TMPDIR`; below `slurm.home` when empty",
    )
    scratch_limit_mib: int = setting(
        10_240, "MiB of each node's scratch folder that are copied to `slurm.home` when a run ends"
    )

    @property
    def machine(self) -> Machine:
        """The machine that these folders and commands belong to."""
        if not self.ssh:
            from batchai_magics.backends.machines.machine import Machine

            return Machine()
        from batchai_magics.backends.machines.ssh_channel import SshChannel
        from batchai_magics.backends.machines.ssh_machine import SshMachine

        return SshMachine(SshChannel(self.ssh, ssh=self.ssh_command, python=self.ssh_python))

    @property
    def usual_home(self) -> PurePath:
        """The home; by default, if the cluster is reached by ssh, in the user's folder there."""
        if self.ssh and self.home == default_home("slurm"):
            return PurePosixPath("~/.local/share", APP, "slurm")
        return self.home

    def options_of_size(self, vm_size: str) -> list[str]:
        """The sbatch options of a VM size, from the table `sizes`; empty if it is not listed."""
        return self._sizes().get(vm_size.strip().lower(), [])

    def check(self) -> None:
        """Raises a UsageError for an invalid setting."""
        if self.placement not in (ANY, FIXED):
            guess = did_you_mean(self.placement, (ANY, FIXED)) or f"one of {ANY}, {FIXED}"
            raise UsageError(f"setting slurm.placement: there is no {self.placement!r}", hint=guess)
        if self.scratch and not self.scratch.startswith(("/", "$")):
            hint = "Write an absolute path, or one that begins with a variable of the nodes, such as $TMPDIR."
            raise UsageError(f"setting slurm.scratch: {self.scratch!r} is not an absolute path", hint=hint)
        _words("options", self.options, {**OWN, **OF_CLUSTERS})
        self._sizes()

    def _sizes(self) -> dict[str, list[str]]:
        entries = [entry.partition("=") for entry in self.sizes.split(";") if entry.strip()]
        for name, _, options in entries:
            if not (name.strip() and options.strip()):
                hint = "Write it as `Standard_NC6=--partition=gpu --gres=gpu:1; Standard_D2=--partition=cpu`."
                raise UsageError(f"setting slurm.sizes: {name.strip()!r} has no options", hint=hint)
        return {name.strip().lower(): _words("sizes", options, OWN) for name, _, options in entries}


def _words(setting: str, options: str, refused: Mapping[str, str]) -> list[str]:
    try:
        return slurm_words(options, refused)
    except ValueError as error:
        raise UsageError(f"setting slurm.{setting}: {error}", hint="`man sbatch` has them all.") from None
