"""Slurm's commands, run on this machine: what is said, and what Slurm answers."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from batchai_magics.backends.slurm import say, understand
from batchai_magics.backends.slurm.understand import JobLine, NodeLine
from batchai_magics.errors import CapabilityError, ServiceError

PATIENCE_S = 60.0  # a controller that is busy answers late
# Of the variables of whoever submits only these reach a job: what one notebook exports is no other job's
# business.
PASSED_ON = {"HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "PATH", "LD_LIBRARY_PATH", "PYTHONPATH"}
PASSED_ON |= {"VIRTUAL_ENV", "MODULEPATH", "LOADEDMODULES", "_LMFILES_"}
PASSED_ON_PREFIXES: tuple[str, ...] = (
    "LC_",
    "CONDA_",
    "CUDA_",
    "OMP_",
    "MKL_",
    "OPENBLAS_",
    "SSL_",
    "XDG_CACHE",
    "TF_",
)
PASSED_ON_PREFIXES += ("LMOD_", "FI_", "MPIR_", "MPICH_", "UCX_", "NCCL_", "OMPI_", "PMIX_", "I_MPI_")


class Slurm:
    """The Slurm of this machine, or the one that another configuration file names."""

    def __init__(self, conf: str = "") -> None:
        self.conf = conf

    def submit(self, script: Path, options: Sequence[str], *, python: str) -> str:
        """Hands a batch script to Slurm; gives the job's number."""
        answer = self._run(say.submission(script, options), env=environment(python))
        return understand.job_number(answer)

    def jobs(self) -> dict[str, JobLine]:
        """This user's jobs by number: those that wait or run, and those that ended a moment ago."""
        return understand.jobs(self._run(say.own_jobs(os.getuid())))

    def nodes(self) -> list[NodeLine]:
        """The nodes of all partitions, a line for each node and partition."""
        return understand.nodes(self._run(say.all_nodes()))

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

    def _run(
        self, words: Sequence[str], *, env: Mapping[str, str] | None = None, may_fail: bool = False
    ) -> str:
        program = shutil.which(words[0])
        if not program:
            hint = "Use the backend on a login node, or load the module that brings Slurm's commands."
            raise CapabilityError(f"there is no {words[0]} on this machine", code="NoSlurm", hint=hint)
        own = {"SLURM_CONF": self.conf} if self.conf else {}
        given = {**(os.environ if env is None else env), **own}
        try:
            done = subprocess.run(
                [program, *words[1:]],
                env=given,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=PATIENCE_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            hint = "Slurm's controller is busy, or down: try again later."
            raise ServiceError(
                f"{words[0]} did not answer within {PATIENCE_S:g} s", code="SlurmUnavailable", hint=hint
            ) from None
        if done.returncode and not may_fail:
            raise understand.refusal(words[0], done.stderr.decode(errors="replace"))
        return done.stdout.decode(errors="replace")


def environment(python: str, conf: str = "") -> dict[str, str]:
    """What a job inherits. `python`'s folder comes first on PATH: `python` and `mpirun` are its own."""
    env = {
        name: value
        for name, value in os.environ.items()
        if name in PASSED_ON or name.startswith(PASSED_ON_PREFIXES)
    }
    if conf := conf or os.environ.get("SLURM_CONF", ""):
        env["SLURM_CONF"] = conf
    env["PATH"] = os.pathsep.join([str(Path(python).parent), env.get("PATH", os.defpath)])
    env["PYTHONUNBUFFERED"] = "1"
    return env
