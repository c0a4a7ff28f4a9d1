"""The words of 2017, before there were workspaces, become those of 2018. Pure.

`job stream-file --job-name J --name stdout.txt` is `job file stream --job J --file-name stdout.txt`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

_JOB = {"--name": "--job", "-n": "--job", "--job-name": "--job"}
_CLUSTER = {"--name": "--cluster", "-n": "--cluster", "--cluster-name": "--cluster"}
_LISTED = {"-e": "--expiry"}

# The command then → the command now, and what its options are called now.
_COMMANDS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "job list-files": ("job file list", {**_JOB, **_LISTED}),
    "job stream-file": (
        "job file stream",
        {"--name": "--file-name", "-n": "--file-name", "--job-name": "--job"},
    ),
    "job list-nodes": ("job node list", _JOB),
    "cluster list-nodes": ("cluster node list", _CLUSTER),
    "cluster list-files": ("cluster file list", {**_CLUSTER, **_LISTED}),
}
# Options of commands that kept their name; an empty word is one that means nothing any more.
_MOUNTS = {
    "--nfs-name": "--nfs",
    "--nfs-resource-group": "",
    "--container-name": "--bfs-name",
    "--container-mount-path": "--bfs-mount-path",
}
_CREATE = {**_MOUNTS, "--config": "--config-file", "--location": "", "-l": ""}
_OPTIONS: Mapping[str, Mapping[str, str]] = {
    "cluster create": {**_CREATE, "-c": "--config-file", "--cluster-name": "--name"},
    "job create": {
        **_CREATE,
        "--cluster-name": "--cluster",
        "-r": "--cluster",
        "--cluster-resource-group": "",
        "--job-name": "--name",
    },
    "file-server create": {"--config": "--config-file", "-c": "--config-file", "--location": "", "-l": ""},
    "job file list": _JOB,
    "job file stream": _JOB,
    "job node list": _JOB,
    "cluster node list": {**_CLUSTER},
    "cluster file list": {**_CLUSTER},
}
_FILES = (".json", ".yaml", ".yml")


@dataclass(frozen=True)
class Reading:
    """A line in today's words, and which of its words were others."""

    words: tuple[str, ...]
    changed: tuple[str, ...] = ()


def old_words(path: Sequence[str]) -> tuple[str, ...]:
    """The words of 2017 that could follow a group's: `list-files` after `job`."""
    parts = [command.split() for command in _COMMANDS]
    return tuple(word for *group, word in parts if group == list(path))


def old_flags(words: Sequence[str]) -> Mapping[str, str]:
    """The options that this line's command had in 2017, and what they are called now; empty is not at all."""
    if " ".join(words[:2]) in _COMMANDS:
        return _COMMANDS[" ".join(words[:2])][1]
    return _names(" ".join(words[:2]), words) or _names(" ".join(words[:3]), words)


def modern(words: Sequence[str]) -> Reading:
    """The line as one would write it today."""
    old = " ".join(words[:2])
    name, names = _COMMANDS.get(old, ("", {}))
    if name:
        rest, changed = _renamed(words[2:], names)
        return Reading((*name.split(), *rest), (f"{old} as {name}", *changed))
    for depth in (2, 3):
        names = _names(" ".join(words[:depth]), words)
        if names:
            rest, changed = _renamed(words[depth:], names)
            return Reading((*words[:depth], *rest), changed)
    return Reading(tuple(words))


def _names(command: str, words: Sequence[str]) -> Mapping[str, str]:
    """What the options of a command are called now. `-c` was the file of a job, and is its cluster."""
    names = _OPTIONS.get(command)
    if names and command == "job create" and _is_file_after("-c", words):
        return {**names, "-c": "--config-file"}
    return names or {}


def _is_file_after(flag: str, words: Sequence[str]) -> bool:
    if flag not in words or "-f" in words or "--config-file" in words:
        return False
    value = next(iter(words[words.index(flag) + 1 :]), "")
    return PurePath(value).suffix in _FILES or not {"-r", "--cluster-name"}.isdisjoint(words)


def _renamed(words: Sequence[str], names: Mapping[str, str]) -> tuple[list[str], tuple[str, ...]]:
    """The words with their options renamed, and what was renamed."""
    renamed: list[str] = []
    changed: dict[str, None] = {}
    rest = iter(words)
    for word in rest:
        flag, sign, value = word.partition("=")
        if flag not in names:
            renamed.append(word)
        elif names[flag]:
            renamed.append(f"{names[flag]}{sign}{value}")
            changed[f"{flag} as {names[flag]}"] = None
        else:
            if not sign:
                next(rest, None)
            changed[f"without {flag}"] = None
    return renamed, tuple(changed)
