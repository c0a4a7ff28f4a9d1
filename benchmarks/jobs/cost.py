"""What a job that does nothing costs in processor time: to submit it, to watch over it, its own process.

Held against submitit's local executor, and against the shell that starts the same script by hand, outside of
git repositories, whose state the others do not record.
"""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from batchai_magics.backends.base.backend_registry import open_backend
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.cell import parse
from batchai_magics.config import Settings
from batchai_magics.jobs.submit import submit
from benchmarks.jobs.start import minimal_in, working_in
from benchmarks.row import Row, table

QUEUE, NODES, BY_HAND = 60, 4, 10
_ADOPT = 36  # PR_SET_CHILD_SUBREAPER: what supervisors leave behind is counted too


def rows() -> Iterator[Row]:
    """A row against each of the others."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_ADOPT, 1, 0, 0, 0)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, working_in(folder):
        place = Path(folder)
        ours = cpu_ms(lambda: queued(place / "home"), QUEUE)
        others = cpu_ms(lambda: by_submitit(place / "submitit"), BY_HAND)
        alone = cpu_ms(lambda: by_hand(place), BY_HAND)
        lone = cpu_ms(lambda: queued(place / "lone", is_alone=True), QUEUE)
        minimal = minimal_in(place / "minimal")
        least = cpu_ms(lambda: [minimal() for _ in range(BY_HAND)], BY_HAND)
        with working_in(Path(__file__).parent):
            inside = cpu_ms(lambda: queued(place / "another"), QUEUE)
    what = f"CPU of an empty job, of {QUEUE} queued"
    yield Row(what, ours, "submitit, local executor", others, "ms")
    yield Row(what, ours, "bash -c 'python script.py'", alone, "ms")
    yield Row("the same in this repository", inside, "outside", ours, "ms")
    yield Row("CPU of an empty job, one after the other", lone, "a minimal supervisor", least, "ms")


def cpu_ms(act: Callable[[], object], count: int) -> float:
    """The processor time of this process and of all below it, for each of so many."""
    before, own = _below(), time.process_time()
    act()
    while _is_any_left():
        pass
    return (_below() - before + time.process_time() - own) * 1000 / count


def queued(home: Path, *, is_alone: bool = False) -> None:
    """Jobs on a cluster of a few nodes, all at once unless each is to be alone."""
    settings = Settings(sections={"local": LocalSettings(home=home)}, cluster_nodes=NODES)
    backend = open_backend(settings)
    requests = [parse(f"q{number} --toolkit custom", "1", settings=settings) for number in range(QUEUE)]
    jobs = (submit(backend, request, settings).job for request in requests)
    for job in jobs if is_alone else [*jobs]:
        assert job.wait().exit_code == 0
    backend.close()


def by_submitit(folder: Path) -> None:
    """Calls of a function that does nothing."""
    import submitit  # of the extra [bench]

    executor = submitit.LocalExecutor(folder=folder)
    executor.update_parameters(timeout_min=1)
    for job in [executor.submit(int) for _ in range(BY_HAND)]:
        job.result()


def by_hand(folder: Path) -> None:
    """The script, one after the other."""
    script = folder / "script.py"
    script.write_text("1")
    for _ in range(BY_HAND):
        subprocess.run(["/bin/bash", "-c", f"{sys.executable} {script}; exit $?"], check=True)


def _below() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _is_any_left() -> bool:
    """Waits for the end of one process below this one, if there is any."""
    try:
        os.waitpid(-1, 0)
    except ChildProcessError:
        return False
    return True


if __name__ == "__main__":
    print(table(rows()))
