"""Checks that nodes see the home: on one node when the backend is chosen, and for failed jobs."""

from __future__ import annotations

import shlex
import uuid
from dataclasses import dataclass
from pathlib import Path

from batchai_magics.backends.folders import private_files
from batchai_magics.backends.machines.machine import CommandLine, CompletedCommand, Machine
from batchai_magics.backends.node.outcome import failed_with
from batchai_magics.backends.slurm import client
from batchai_magics.backends.slurm.client import SlurmClient
from batchai_magics.backends.slurm.clusters import is_asleep, lines_of
from batchai_magics.backends.slurm.parse import node_state
from batchai_magics.backends.slurm.settings import SlurmSettings, slurm_values
from batchai_magics.errors import BatchAIError, StorageError
from batchai_magics.launch.outcome import Outcome
from batchai_magics.models.states import NodeState

CODE = "HomeNotShared"
FIX = "Set slurm.home to a folder that this machine and all nodes share."
TIMEOUT_S = 30.0
_KEPT_OPTIONS = ("account", "constraint", "qos", "reservation")  # other options concern whole jobs


def check(machine: Machine, settings: SlurmSettings, home: Path) -> str:
    """Makes a node read a file in the home, once per partition; returns a sentence with the result.

    If no node is idle, the sentence says that the check was skipped.

    Raises:
        StorageError: The node does not see the file.
    """
    mark = home / "seen" / (settings.partition or "default")
    if mark.exists():
        return ""
    file, token = home / f"home-check-{uuid.uuid4().hex}", uuid.uuid4().hex
    private_files.write(file, f"{token}\n")
    try:
        result = _run_check(machine, settings, file, token)
    finally:
        file.unlink(missing_ok=True)
    if not result.node:
        return f"Whether nodes see slurm.home ({home}) was not checked: {result.problem}"
    if result.problem:
        text = f"{result.node} does not see {home}, the folder that slurm.home names: {result.problem}"
        hint = f"{FIX} Test one: {_test_command(result.node, settings.partition, home)}"
        raise StorageError(text, code=CODE, hint=hint)
    private_files.write(mark, f"{result.node}\n")
    return f"{result.node} sees slurm.home ({home})."


def not_shared(home: Path, *, node: str, partition: str, file: Path) -> Outcome:
    """The outcome of a job whose script wrote nothing to the home; `file` is what its node should see."""
    name = node or "its first node"
    text = (
        f"The job failed on {name} at once, and wrote nothing to {home}: {name} probably does not see this"
        f" folder, which slurm.home names. Test it: {_test_command(node, partition, file)}. {FIX.rstrip('.')}"
    )
    return failed_with(CODE, text, **({"NodeId": node} if node else {}))


def _test_command(node: str, partition: str, file: Path) -> str:
    """A command with which users can test whether a node sees a file."""
    placement = [f"--partition={partition}"] * bool(partition) + [f"--nodelist={node}"] * bool(node)
    return f"`{shlex.join(['srun', *placement, 'ls', '-d', str(file)])}`"


@dataclass(frozen=True)
class _Finding:
    """The node that ran the check (empty if none did), and why it does not see the file, if so."""

    node: str = ""
    problem: str = ""


def _run_check(machine: Machine, settings: SlurmSettings, file: Path, token: str) -> _Finding:
    """Makes an idle node read the file with the token; returns the result."""
    try:
        lines = lines_of(settings.partition, SlurmClient(machine, settings.conf).nodes())
    except BatchAIError as error:
        return _Finding(problem=error.message)
    awake = (line for line in lines if not is_asleep(line))
    idle_node = next((line.name for line in awake if node_state(line.state) is NodeState.IDLE), "")
    if not idle_node:
        return _Finding(problem="no node is free now")
    values = slurm_values(shlex.split(settings.options))
    placement = [f"--{name}={values[name]}" for name in _KEPT_OPTIONS if values.get(name)]
    words = ["srun", "--nodes=1", "--ntasks=1", "--immediate=10", "--time=1", "--job-name=batchai-home-check"]
    words += [f"--nodelist={idle_node}", "--mpi=none", "--chdir=/"]
    words += [*[f"--partition={settings.partition}"] * bool(settings.partition), *placement]
    words += ["/bin/sh", "-c", 'echo "$SLURMD_NODENAME"; cat "$0"', str(file)]
    env = client.command_environment(machine, settings.python or machine.python, settings.conf)
    try:
        done = machine.run(CommandLine(words, env), timeout_s=TIMEOUT_S)
    except FileNotFoundError:
        return _Finding(problem=f"there is no {words[0]} on {machine.name}")
    except TimeoutError:
        return _Finding(problem=f"{words[0]} did not answer within {TIMEOUT_S:g} s")
    return _parse_check(done, file, token)


def _parse_check(done: CompletedCommand, file: Path, token: str) -> _Finding:
    """Parses the output of the check: the node's name, then the file's text."""
    words = done.stdout.decode(errors="replace").split()
    errors = done.stderr.decode(errors="replace").strip().splitlines()
    if not words:
        return _Finding(problem=errors[-1].removeprefix("srun: ") if errors else "srun ended without output")
    if token in words:
        return _Finding(words[0])
    return _Finding(words[0], next((line for line in errors if str(file) in line), "no such file"))
