"""Detects ranks that were meant to be one MPI program, but each ran alone."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from batchai_magics.backends.node.ranks.ranks import Ranks
from batchai_magics.launch.plan import Plan

_IMPORTS_MPI = re.compile(
    rb"^[ \t]*(?:from|import)[ \t][^\n#]*\b(?:mpi4py|horovod|chainermn|mpi4jax)\b", re.MULTILINE
)
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_READ_LIMIT = 1 << 20


def is_unused(ranks: Ranks) -> bool:
    """Whether no rank joined the job's MPI although the script imports it or ranks printed the same output.

    Programs that need no MPI, such as one that computes something for each rank, print different output.
    """
    manager = ranks.manager
    if manager is None or manager.size < 2 or manager.initialized:
        return False
    return ranks.have_printed_the_same or any(map(_imports_mpi, _scripts(ranks.plan)))


def _scripts(plan: Plan) -> Iterator[Path]:
    """The Python files named in the command, which is the same for all MPI ranks."""
    process = plan.processes[0]
    node = plan.node_of(process)
    command = _expanded(process.command, {**node.env, **process.env})
    try:
        words = shlex.split(command)
    except ValueError:  # an unclosed quote, which the shell rejects too
        return
    for word in words:
        if word.endswith(".py"):
            yield Path(node.folder, word)


def _expanded(text: str, variables: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda found: variables.get(found[1] or found[2], found[0]), text)


def _imports_mpi(script: Path) -> bool:
    try:
        with script.open("rb") as file:
            return _IMPORTS_MPI.search(file.read(_READ_LIMIT)) is not None
    except OSError:  # it is inside a container, or gone
        return False
