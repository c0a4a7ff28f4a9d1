"""The Slurm client: runs Slurm's commands on a machine that has them, and commands on nodes through srun."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path, PurePosixPath

from batchai_magics.backends.base import CommandEnd, CommandOutput
from batchai_magics.backends.machines.machine import CommandLine, Machine
from batchai_magics.backends.node.job_environment import submitter_environment
from batchai_magics.backends.slurm import parse
from batchai_magics.backends.slurm.parse import NodeLine, SlurmJob
from batchai_magics.errors import CapabilityError, ServiceError

TIMEOUT_S = 60.0  # a busy controller responds late
# Variables by which users change what Slurm's commands print.
_OUTPUT_VARIABLES = ("SACCT_", "SCANCEL_", "SCONTROL_", "SINFO_", "SQUEUE_", "SLURM_TIME_FORMAT")


class SlurmClient:
    """Slurm as seen from a machine, optionally with another configuration file."""

    def __init__(self, machine: Machine, conf: str = "", *, pass_env: str = "") -> None:
        self.machine, self.conf, self._pass_env = machine, conf, pass_env
        self._is_version_checked = False

    def submit(self, script: Path, options: Sequence[str], *, python: str) -> str:
        """Submits a batch script; returns the job number."""
        args = ["sbatch", "--parsable", "--export=ALL", *options, str(script)]
        env = command_environment(self.machine, python, pass_env=self._pass_env)
        output = self._run(args, env=env, result_folder=script.with_name(f"submit-{uuid.uuid4().hex}"))
        return parse.job_number(output)

    def jobs(self) -> dict[str, SlurmJob]:
        """This user's jobs by number: pending, running and recently ended ones."""
        listed = [f"--user={self.machine.user}", "--array", "--states=all"]
        form = f"--format={parse.SEPARATOR.join(parse.JOB_FIELDS)}"
        return parse.jobs(self._run(["squeue", "--noheader", *listed, form]))

    def nodes(self) -> list[NodeLine]:
        """The nodes of all partitions, one line per node and partition."""
        form = f"--format={parse.SEPARATOR.join(parse.NODE_FIELDS)}"
        return parse.nodes(self._run(["sinfo", "--noheader", "--Node", form]))

    def configuration(self) -> dict[str, str]:
        """Slurm's configuration, by the names used in its configuration file."""
        return parse.configuration(self._run(["scontrol", "show", "config"]))

    def past_jobs(self, numbers: Collection[str]) -> list[SlurmJob]:
        """All jobs that ever had these numbers, without their steps, from accounting."""
        form = [f"--delimiter={parse.SEPARATOR}", f"--format={','.join(parse.PAST_FIELDS)}"]
        listed = ["--allocations", "--duplicates", f"--jobs={','.join(sorted(numbers))}"]
        env = {**self._environ, "SLURM_TIME_FORMAT": "%s"}  # seconds since 1970
        return parse.past_jobs(self._run(["sacct", "--noheader", "--parsable2", *listed, *form], env=env))

    def cancel(self, number: str) -> None:
        """Cancels a pending or running job; no effect on one that has ended."""
        self._run(["scancel", number], may_fail=True)

    def cancel_if_pending(self, number: str) -> None:
        """Cancels a pending job; no effect on one that runs."""
        if "_" in number:
            # `scancel --state` would cancel all pending tasks of the array.
            with contextlib.suppress(ServiceError):  # it has started, and cannot be held any more
                self._run(["scontrol", "hold", number])
                self.cancel(number)
            return
        self._run(["scancel", "--state=PENDING", number], may_fail=True)

    def signal_stop(self, number: str) -> None:
        """Signals the program of a running job, the batch script alone, to read its stop request."""
        self._run(["scancel", "--batch", "--signal=TERM", number], may_fail=True)

    def update_placement(self, number: str, *, excluded: Sequence[str], is_held: bool) -> None:
        """Sets the excluded nodes of a pending job, and holds or releases it."""
        update = ["scontrol", "update", f"jobid={number}", f"excnodelist={','.join(excluded)}"]
        self._run(update, may_fail=True)
        self._run(["scontrol", "hold" if is_held else "release", number], may_fail=True)

    @property
    def _environ(self) -> dict[str, str]:
        environ = self.machine.environ
        return {name: value for name, value in environ.items() if not name.startswith(_OUTPUT_VARIABLES)}

    def _run(
        self,
        args: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        result_folder: Path | None = None,
        may_fail: bool = False,
    ) -> str:
        if not self._is_version_checked:
            conf = self.conf or self._environ.get("SLURM_CONF", "")
            if conf and not self.machine.resolve(PurePosixPath(conf)).exists():
                name = "setting slurm.conf" if self.conf else "SLURM_CONF"
                hint = "Name Slurm's configuration file, or leave it out where that is the usual one."
                text = f"{name}: {conf} does not exist on {self.machine.name}"
                raise CapabilityError(text, code="NoSlurm", hint=hint)
            self._is_version_checked = True
            parse.check_version(self._run(["sinfo", "--version"]))  # without its controller
        conf_variable = {"SLURM_CONF": self.conf} if self.conf else {}
        line = CommandLine(args, {**(self._environ if env is None else env), **conf_variable})
        try:
            done = self.machine.run(line, timeout_s=TIMEOUT_S, result_folder=result_folder)
        except FileNotFoundError:
            hint = "Use the backend on a login node, or load the module that brings Slurm's commands."
            text = f"there is no {args[0]} on {self.machine.name}"
            raise CapabilityError(text, code="NoSlurm", hint=hint) from None
        except TimeoutError:
            hint = "Slurm's controller is busy, or down: try again later."
            raise ServiceError(
                f"{args[0]} did not answer within {TIMEOUT_S:g} s", code="SlurmUnavailable", hint=hint
            ) from None
        if done.code and not may_fail:
            raise parse.service_error(args[0], done.stderr.decode(errors="replace"))
        return done.stdout.decode(errors="replace")


def command_environment(
    machine: Machine, python: str, conf: str = "", *, pass_env: str = ""
) -> dict[str, str]:
    """The environment that a job inherits.

    The folder of `python` comes first on PATH, so that jobs run `python` and `mpirun` from it.
    """
    environ = machine.environ
    first = machine.path_prefix if python == machine.python else str(PurePosixPath(python).parent)
    env = submitter_environment(environ, first, pass_env)
    if conf := conf or environ.get("SLURM_CONF", ""):
        env["SLURM_CONF"] = conf
    return env


EXIT_CODE_TIMEOUT_S = 10.0  # how long a file written by a node may take to become visible here
_POLL_S = 0.02
UNKNOWN_EXIT_CODE = 1  # exit code of a command whose end was not observed


def run_on_node(
    machine: Machine, line: CommandLine, *, code_file: Path, tick_s: float = 0.0
) -> CommandOutput:
    """Runs an srun command; yields its output and finally its exit code.

    If the generator is closed or interrupted, the command and everything it started ends. With `tick_s`,
    empty bytes are yielded whenever nothing arrived for that long.
    """
    try:
        code = yield from machine.stream(line, tick_s=tick_s)
        code = code or _read_exit_code(code_file)
    finally:
        code_file.unlink(missing_ok=True)
    yield CommandEnd(code if code >= 0 else 128 - code)


def _read_exit_code(file: Path) -> int:
    """Reads the exit code written by the node; waits until the file is visible here."""
    deadline = time.monotonic() + EXIT_CODE_TIMEOUT_S
    while time.monotonic() < deadline:
        try:
            return int(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            time.sleep(_POLL_S)
    return UNKNOWN_EXIT_CODE
