"""Slurm's commands, run on a machine that has them: what is said, and what Slurm answers."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from batchai_magics.backends.machines.machine import Line, Machine
from batchai_magics.backends.service.inherited_environment import inherited
from batchai_magics.backends.slurm import say, understand
from batchai_magics.backends.slurm.understand import JobLine, NodeLine
from batchai_magics.errors import CapabilityError, ServiceError

PATIENCE_S = 60.0  # a controller that is busy answers late
# Variables by which users have Slurm's commands tell less, or otherwise, than they are asked for here.
_USERS_TASTE = ("SACCT_", "SCANCEL_", "SCONTROL_", "SINFO_", "SQUEUE_", "SLURM_TIME_FORMAT")


class Slurm:
    """The Slurm of a machine, or the one that another configuration file there names."""

    def __init__(self, machine: Machine, conf: str = "") -> None:
        self.machine, self.conf = machine, conf
        self._is_new_enough = False

    def submit(self, script: Path, options: Sequence[str], *, python: str) -> str:
        """Hands a batch script to Slurm; gives the job's number."""
        words, env = say.submission(script, options), environment(self.machine, python)
        answer = self._run(words, env=env, answer=script.with_name(f"submit-{uuid.uuid4().hex}"))
        return understand.job_number(answer)

    def jobs(self) -> dict[str, JobLine]:
        """This user's jobs by number: those that wait or run, and those that ended a moment ago."""
        return understand.jobs(self._run(say.own_jobs(self.machine.user)))

    def nodes(self) -> list[NodeLine]:
        """The nodes of all partitions, a line for each node and partition."""
        return understand.nodes(self._run(say.all_nodes()))

    def configuration(self) -> dict[str, str]:
        """How this Slurm is set up, by the names of its configuration file."""
        return understand.configuration(self._run(say.configuration()))

    def past(self, words: Sequence[str], more: Mapping[str, str]) -> str:
        """What accounting answers a line, in an environment with `more` variables."""
        return self._run(words, env={**self._environ, **more})

    def end(self, number: str) -> None:
        """Ends a job, whether it waits or runs; nothing happens to one that has ended."""
        self._run(say.cancellation(number), may_fail=True)

    def end_if_waiting(self, number: str) -> None:
        """Ends a job that waits; nothing happens to one that runs."""
        self._run(say.cancellation(number, state="PENDING"), may_fail=True)

    def tell_to_stop(self, number: str) -> None:
        """Has the program of a running job look why it is to stop."""
        self._run(say.signal_to_script(number), may_fail=True)

    def place(self, number: str, *, excluded: Sequence[str], is_held: bool) -> None:
        """Says of a job that waits which nodes it must not have, and whether it may start at all."""
        self._run(say.exclusion(number, excluded), may_fail=True)
        self._run(say.holding(number, is_held=is_held), may_fail=True)

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
            understand.check_version(self._run(say.version()))
        own = {"SLURM_CONF": self.conf} if self.conf else {}
        line = Line(words, {**(self._environ if env is None else env), **own})
        try:
            done = self.machine.run(line, timeout_s=PATIENCE_S, answer=answer)
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
            raise understand.refusal(words[0], done.err.decode(errors="replace"))
        return done.out.decode(errors="replace")

    def _check_conf(self) -> None:
        """CapabilityError for a configuration file that is not there: Slurm's commands would wait for it."""
        conf = self.conf or self._environ.get("SLURM_CONF", "")
        if conf and not self.machine.folder(PurePosixPath(conf)).exists():
            name = "setting slurm.conf" if self.conf else "SLURM_CONF"
            hint = "Name Slurm's configuration file, or leave it out where that is the usual one."
            text = f"{name}: there is no file {conf} on {self.machine.name}"
            raise CapabilityError(text, code="NoSlurm", hint=hint)


def environment(machine: Machine, python: str, conf: str = "") -> dict[str, str]:
    """What a job inherits. `python`'s folder comes first on PATH: `python` and `mpirun` are its own."""
    environ = machine.environ
    env = inherited(environ)
    if conf := conf or environ.get("SLURM_CONF", ""):
        env["SLURM_CONF"] = conf
    first = machine.first_on_path if python == machine.python else str(PurePosixPath(python).parent)
    env["PATH"] = ":".join(filter(None, [first, env.get("PATH", os.defpath)]))
    env["PYTHONUNBUFFERED"] = "1"
    return env
