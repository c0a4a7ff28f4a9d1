"""Translates command lines of 2017, before there were workspaces, to the 2018 syntax. Pure.

`job stream-file --job-name J --name stdout.txt` is `job file stream --job J --file-name stdout.txt`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

_JOB = {"--name": "--job", "-n": "--job", "--job-name": "--job"}
_CLUSTER = {"--name": "--cluster", "-n": "--cluster", "--cluster-name": "--cluster"}
_EXPIRY = {"-e": "--expiry"}

# Old command → current command, and old option → current option.
_COMMANDS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "job list-files": ("job file list", {**_JOB, **_EXPIRY}),
    "job stream-file": (
        "job file stream",
        {"--name": "--file-name", "-n": "--file-name", "--job-name": "--job"},
    ),
    "job list-nodes": ("job node list", _JOB),
    "cluster list-nodes": ("cluster node list", _CLUSTER),
    "cluster list-files": ("cluster file list", {**_CLUSTER, **_EXPIRY}),
}
# Renamed options of commands that kept their name; empty: the option no longer has a meaning.
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
class TranslatedLine:
    """A line in current syntax, and what was translated."""

    words: tuple[str, ...]
    changed: tuple[str, ...] = ()


def legacy_words(path: Sequence[str]) -> tuple[str, ...]:
    """The old commands of a group: `list-files` after `job`."""
    parts = [command.split() for command in _COMMANDS]
    return tuple(word for *group, word in parts if group == list(path))


def translate(words: Sequence[str]) -> TranslatedLine:
    """Translates a line to current syntax."""
    old_name = " ".join(words[:2])
    name, options = _COMMANDS.get(old_name, ("", {}))
    if name:
        rest, changed = _with_renamed_options(words[2:], options)
        return TranslatedLine((*name.split(), *rest), (f"{old_name} as {name}", *changed))
    for depth in (2, 3):
        options = _renamed_options(" ".join(words[:depth]), words)
        if options:
            rest, changed = _with_renamed_options(words[depth:], options)
            return TranslatedLine((*words[:depth], *rest), changed)
    return TranslatedLine(tuple(words))


def _renamed_options(command: str, words: Sequence[str]) -> Mapping[str, str]:
    """Old option → current option. `-c` of `job create` was its file and now is its cluster."""
    names = _OPTIONS.get(command, {})
    if command == "job create" and "-c" in words and {"-f", "--config-file"}.isdisjoint(words):
        value = next(iter(words[words.index("-c") + 1 :]), "")
        if PurePath(value).suffix in _FILES or not {"-r", "--cluster-name"}.isdisjoint(words):
            return {**names, "-c": "--config-file"}
    return names


def _with_renamed_options(
    words: Sequence[str], names: Mapping[str, str]
) -> tuple[list[str], tuple[str, ...]]:
    """The words with their options renamed, and a description of each renaming."""
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
