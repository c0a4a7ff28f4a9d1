"""The copy of uploads in a job's working directory: the command that begins the job preparation."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping
from typing import Any

from batchai_magics.cell.cell_job_spec import INPUT

_ALL = f'cp -R "{INPUT}/." .'
_COPY = re.compile(re.escape(_ALL) + r"(?: && rm -f (?P<own>[^&]+?))?(?: && |$)")


def copy_command(own: Collection[str]) -> str:
    """The command that copies what was sent, but for these files: scripts open theirs by a relative path."""
    return f"{_ALL} && rm -f {shlex.join(sorted(own))}" if own else _ALL


def with_copy(body: Mapping[str, Any], command: str) -> dict[str, Any]:
    """The body of a description whose job preparation begins with the command; unchanged without one."""
    preparation = body.get("jobPreparation") or {}
    if not command or not isinstance(preparation, Mapping):  # validation reports it
        return dict(body)
    line = " && ".join(filter(None, (command, preparation.get("commandLine"))))
    return {**body, "jobPreparation": {**preparation, "commandLine": line}}


def without_copy(command: str) -> str:
    """The command of a job preparation without the copy that it begins with."""
    return _COPY.sub("", command, count=1) if _COPY.match(command) else command


def only_copy(command: str) -> str:
    """The copy that the command of a job preparation begins with; empty without one."""
    return command.removesuffix(without_copy(command)).removesuffix(" && ")


def copied_once(command: str) -> str:
    """The command of a job preparation, which copies only in the first attempt on a working directory."""
    copy = only_copy(command)
    mark = '"$AZ_BATCHAI_SHARED_JOB_TEMP/.copied-${PWD##*/}"'
    once = f'{{ {{ [ -e {mark} ] && [ -n "$(ls -A)" ]; }} || {{ {copy} && {{ touch {mark} || :; }}; }}; }}'
    return command.replace(copy, once, 1) if copy else command


def is_of_folder(command: str) -> bool:
    """Whether a job preparation copies all that was sent: the script is a file of the user, no cell."""
    copy = _COPY.match(command)
    return copy is not None and not copy["own"]
