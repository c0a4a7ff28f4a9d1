"""Native sbatch options of a job: parsing, and which are reserved.

Words are parsed as sbatch does, since it would take an unexpected word for its script.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

from batchai_magics.models.backend_options import BackendOption

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
    "partition": "the job's cluster is of one: see slurm.sizes, slurm.partition"
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
    """The value of each option by its long name, empty for a switch; the last one wins."""
    return dict(_options(words))


def check_job_options(text: str) -> None:
    """Raises ValueError for a line of options that a job may not have, whatever its cluster."""
    slurm_words(text, {**OWN, **OF_CLUSTERS})


SBATCH = BackendOption(
    "slurm",
    'options of sbatch, on a Slurm cluster: "--account=lab --qos=long"',
    check=check_job_options,
)


def _options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yields name and value of each option; every word must belong to one."""
    rest = iter(words)
    for word in rest:
        if not word.startswith("-") or word in ("-", "--"):
            raise ValueError(f"{word!r} is not an option")
        for name, value in _long(word) if word.startswith("--") else _short(word):
            yield name, _next_value(word, rest) if value is None else value


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
    for place, letter in enumerate(word[1:], start=2):
        name = _SHORT.get(letter, letter)
        if letter not in _SHORT_SWITCHES:
            yield name, word[place:] or None
            return
        yield name, ""


def _abbreviated(name: str, refused: Mapping[str, str]) -> str:
    """The reserved option that a name abbreviates, since sbatch accepts prefixes; empty for none."""
    if len(name) == 1 or name in _SWITCHES:
        return ""
    return next((own for own in refused if own.startswith(name)), "")
