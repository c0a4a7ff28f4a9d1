"""The client of Slurm: runs its commands on a machine that has them, and commands on nodes through srun."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from batchai_magics.backends.base import CommandEnd, CommandOutput
from batchai_magics.backends.machines.machine import CommandLine, Machine
from batchai_magics.backends.service.inherited_environment import inherited
from batchai_magics.backends.slurm import cli_args, parse
from batchai_magics.backends.slurm.parse import JobLine, NodeLine
from batchai_magics.errors import CapabilityError, ServiceError

PATIENCE_S = 60.0  # a controller that is busy answers late
# Variables by which users have Slurm's commands tell less, or otherwise, than they are asked for here.
_USERS_TASTE = ("SACCT_", "SCANCEL_", "SCONTROL_", "SINFO_", "SQUEUE_", "SLURM_TIME_FORMAT")


class SlurmClient:
    """The Slurm of a machine, or the one that another configuration file there names."""

    def __init__(self, machine: Machine, conf: str = "") -> None:
        self.machine, self.conf = machine, conf
        self._is_new_enough = False

    def submit(self, script: Path, options: Sequence[str], *, python: str) -> str:
        """Hands a batch script to Slurm; gives the job's number."""
        words, env = cli_args.submission(script, options), command_environment(self.machine, python)
        answer = self._run(words, env=env, answer=script.with_name(f"submit-{uuid.uuid4().hex}"))
        return parse.job_number(answer)

    def jobs(self) -> dict[str, JobLine]:
        """This user's jobs by number: those that wait or run, and those that ended a moment ago."""
        return parse.jobs(self._run(cli_args.own_jobs(self.machine.user)))

    def nodes(self) -> list[NodeLine]:
        """The nodes of all partitions, a line for each node and partition."""
        return parse.nodes(self._run(cli_args.all_nodes()))

    def configuration(self) -> dict[str, str]:
        """How this Slurm is set up, by the names of its configuration file."""
        return parse.configuration(self._run(cli_args.configuration()))

    def past(self, words: Sequence[str], more: Mapping[str, str]) -> str:
        """What accounting answers a line, in an environment with `more` variables."""
        return self._run(words, env={**self._environ, **more})

    def end(self, number: str) -> None:
        """Ends a job, whether it waits or runs; nothing happens to one that has ended."""
        self._run(cli_args.cancellation(number), may_fail=True)

    def end_if_waiting(self, number: str) -> None:
        """Ends a job that waits; nothing happens to one that runs."""
        self._run(cli_args.cancellation(number, state="PENDING"), may_fail=True)

    def tell_to_stop(self, number: str) -> None:
        """Has the program of a running job look why it is to stop."""
        self._run(cli_args.signal_to_script(number), may_fail=True)

    def update_placement(self, number: str, *, excluded: Sequence[str], is_held: bool) -> None:
        """Tells Slurm of a pending job which nodes it must not have, and whether it may start at all."""
        self._run(cli_args.exclusion(number, excluded), may_fail=True)
        self._run(cli_args.holding(number, is_held=is_held), may_fail=True)

    @property
    def _environ(self) -> dict[str, str]:
        environ = self.machine.environ
        return {name: value for name, value in environ.items() if not name.startswith(_USERS_TASTE)}

    def _run(
        self,
        words: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        answer: Path | None = None,
        may_fail: bool = False,
    ) -> str:
        if not self._is_new_enough:
            self._check_conf()
            self._is_new_enough = True
            parse.check_version(self._run(cli_args.version()))
        own = {"SLURM_CONF": self.conf} if self.conf else {}
        line = CommandLine(words, {**(self._environ if env is None else env), **own})
        try:
            done = self.machine.run(line, timeout_s=PATIENCE_S, result_folder=answer)
        except FileNotFoundError:
            hint = "Use the backend on a login node, or load the module that brings Slurm's commands."
            text = f"there is no {words[0]} on {self.machine.name}"
            raise CapabilityError(text, code="NoSlurm", hint=hint) from None
        except TimeoutError:
            hint = "Slurm's controller is busy, or down: try again later."
            raise ServiceError(
                f"{words[0]} did not answer within {PATIENCE_S:g} s", code="SlurmUnavailable", hint=hint
            ) from None
        if done.code and not may_fail:
            raise parse.service_error(words[0], done.stderr.decode(errors="replace"))
        return done.stdout.decode(errors="replace")

    def _check_conf(self) -> None:
        """CapabilityError for a configuration file that is not there: Slurm's commands would wait for it."""
        conf = self.conf or self._environ.get("SLURM_CONF", "")
        if conf and not self.machine.resolve(PurePosixPath(conf)).exists():
            name = "setting slurm.conf" if self.conf else "SLURM_CONF"
            hint = "Name Slurm's configuration file, or leave it out where that is the usual one."
            text = f"{name}: there is no file {conf} on {self.machine.name}"
            raise CapabilityError(text, code="NoSlurm", hint=hint)


def command_environment(machine: Machine, python: str, conf: str = "") -> dict[str, str]:
    """What a job inherits. `python`'s folder comes first on PATH: `python` and `mpirun` are its own."""
    environ = machine.environ
    env = inherited(environ)
    if conf := conf or environ.get("SLURM_CONF", ""):
        env["SLURM_CONF"] = conf
    first = machine.path_prefix if python == machine.python else str(PurePosixPath(python).parent)
    env["PATH"] = ":".join(filter(None, [first, env.get("PATH", os.defpath)]))
    env["PYTHONUNBUFFERED"] = "1"
    return env


CODE_S = 10.0  # what a shared folder gets to show a file that a node has written
_AGAIN_S = 0.02
LOST = 1  # the exit code of a command whose end nobody has seen


def run_on_node(
    machine: Machine, line: CommandLine, *, code_file: Path, tick_s: float = 0.0
) -> CommandOutput:
    """Runs a line of srun's; gives what comes, and at last the exit code.

    When the generator is closed, or interrupted, the command ends with all that it has started. With `tick_s`
    no bytes at all are given whenever nothing came for so long.
    """
    try:
        code = yield from machine.stream(line, tick_s=tick_s)
        code = code or _code_in(code_file)
    finally:
        code_file.unlink(missing_ok=True)
    yield CommandEnd(code if code >= 0 else 128 - code)


def _code_in(file: Path) -> int:
    """The exit code that the node has left; it may take a moment to be seen here."""
    deadline = time.monotonic() + CODE_S
    while time.monotonic() < deadline:
        try:
            return int(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            time.sleep(_AGAIN_S)
    return LOST
