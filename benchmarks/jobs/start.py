"""From submitting a job to the first of its processes running its program, against mpiexec and submitit.

The program prints the time, also after a barrier of MPI; the earliest of the times counts. Four processes are
held against mpiexec, one against submitit's local executor. Neither records the state of a git repository, so
the jobs are submitted outside of one, and once inside.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median

from batchai_magics.backends.base.backend_registry import open_backend
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.cell import parse
from batchai_magics.config import Settings
from batchai_magics.jobs.submit import submit
from benchmarks.row import Row, table

RUNS = 5
SCRIPT = "import time; print(time.time())"
MPI = f"from mpi4py import MPI; MPI.COMM_WORLD.Barrier(); {SCRIPT}"
LOOPBACK = {"MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp", "FI_TCP_IFACE": "lo"}


def rows() -> Iterator[Row]:
    """One row against each of the others."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, working_in(folder):
        start_job = job_in(Path(folder) / "home")
        ours = typical(start_job)
        yield Row("submit -> first rank runs", ours * 1000, "mpiexec -n 4", typical(mpiexec) * 1000, "ms")
        ranks = typical(partial(start_job, MPI)), typical(partial(mpiexec, MPI))
        yield Row("submit -> MPI ranks meet", ranks[0] * 1000, "mpiexec -n 4", ranks[1] * 1000, "ms")
        one = typical(partial(start_job, line="--toolkit custom"))
        other = typical(submitit_in(Path(folder) / "submitit"))
        yield Row("submit -> one process runs", one * 1000, "submitit, local executor", other * 1000, "ms")
        least = typical(minimal_in(Path(folder) / "minimal"))
        yield Row("submit -> one process runs", one * 1000, "a minimal supervisor", least * 1000, "ms")
        with working_in(Path(__file__).parent):
            inside = typical(partial(start_job, line="--toolkit custom"))
        yield Row("the same in this repository", inside * 1000, "outside", one * 1000, "ms")


@contextlib.contextmanager
def working_in(folder: str | Path) -> Iterator[None]:
    """With this working directory."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def typical(start: Callable[[], float]) -> float:
    """The median delay, in seconds, of the times that `start` gives; the first run warms up."""
    delays_s = []
    for _ in range(RUNS + 1):
        began = time.time()
        delays_s.append(start() - began)
    return median(delays_s[1:])


def job_in(home: Path) -> Callable[..., float]:
    """A job on the local backend, of 2 nodes and 4 processes if `line` says nothing else."""
    settings = Settings(sections={"local": LocalSettings(home=home)})
    backend = open_backend(settings)

    def start(script: str = SCRIPT, *, line: str = "--nodes 2 --processes 4") -> float:
        request = parse(f"start {line} --new", script, settings=settings)
        return earliest(submit(backend, request, settings).job.wait().log())

    return start


def mpiexec(script: str = SCRIPT) -> float:
    """The same four processes, started by hand."""
    command = [Path(sys.executable).parent / "mpiexec", "-n", "4", sys.executable, "-c", script]
    return earliest(subprocess.check_output(command, env=LOOPBACK, text=True))


def submitit_in(folder: Path) -> Callable[[], float]:
    """A function that submitit runs in a process of this machine."""
    import submitit  # of the extra [bench]

    executor = submitit.LocalExecutor(folder=folder)
    executor.update_parameters(timeout_min=1)
    return lambda: executor.submit(time.time).result()


def minimal_in(home: Path) -> Callable[[], float]:
    """The same script as a job of a minimal supervisor."""
    home.mkdir()
    database = sqlite3.connect(home / "state.db", isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("CREATE TABLE job (guid TEXT PRIMARY KEY, state TEXT, supervisor TEXT, changed REAL)")
    script = home / "script.py"
    script.write_text(SCRIPT)
    start = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import gc; gc.disable()"
    words = [
        sys.executable,
        "-E",
        "-S",
        "-c",
        f"{start}; import minimal_supervisor; minimal_supervisor.main()",
    ]

    def start_job() -> float:
        guid = uuid.uuid4().hex
        database.execute("INSERT INTO job (guid) VALUES (?)", (guid,))
        plan = json.dumps({"guid": guid, "command": f"{sys.executable} {script}"})
        subprocess.run([*words, str(home)], input=plan, text=True, start_new_session=True, check=True)
        return earliest((home / guid / "stdout.txt").read_text())

    return start_job


def earliest(log: str) -> float:
    """The first time in a log of times."""
    return min(map(float, log.split()))


if __name__ == "__main__":
    print(table(rows()))
