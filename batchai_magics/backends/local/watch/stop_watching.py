"""`--stop-if`: a program beside a job's supervisor that reads its logs, and has it ended for what it finds.

It is another process since it loads the readers of logs, which supervisors are too quick and too small for.
Only jobs that ask for it have one.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from batchai_magics.backends.folders.layout import JobLayout, Layout
from batchai_magics.backends.local.state import jobs
from batchai_magics.backends.local.watch import process
from batchai_magics.backends.local.watch.detached import PACKAGE_ROOT, START
from batchai_magics.backends.local.watch.shared_store import SharedStore
from batchai_magics.backends.service import private_files
from batchai_magics.launch.plan import Plan

LOOK_S = 0.5  # between two looks at the logs


@contextlib.contextmanager
def watched(job: JobLayout, *, warn: Callable[[str], None]) -> Iterator[None]:
    """Has the job watched, if it asks for that; warns of what could not be checked."""
    if not job.stop_if.exists():
        yield
        return
    child = _start(job)
    try:
        yield
    finally:
        is_early = child.poll() is not None
        child.terminate()
        unseen, code = child.communicate()[0].decode(), child.wait()
    for note in unseen.splitlines():
        warn(note)
    if is_early and code not in (0, -signal.SIGTERM):
        warn(f"--stop-if was not checked to the end: its program ended with {code}, see {job.supervisor_log}")


def _start(job: JobLayout) -> subprocess.Popen[bytes]:
    home, guid = job.root.parents[1], job.root.name
    with open(job.supervisor_log, "ab", opener=private_files.opener) as log:
        return subprocess.Popen(
            [sys.executable, "-c", START.format(module="stop_watching"), PACKAGE_ROOT, str(home), guid],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            preexec_fn=process.die_with_starter,
        )


def main() -> None:
    """Looks until the job is to be stopped, or the supervisor says that it has ended.

    What could not be checked then goes to stdout.
    """
    from batchai_magics.backends.folders.stop_order import StopOrder
    from batchai_magics.backends.folders.stop_watch import StopWatch

    home, guid = sys.argv[1:3]
    layout = Layout(Path(home))
    job = layout.job(guid)
    watch = StopWatch(StopOrder.read(job.stop_if), Plan.read(str(job.plan)))
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    while True:
        is_last = over.is_set()
        reason = watch.look(time.monotonic())
        if is_last:
            print(*watch.unseen, sep="\n", flush=True)
            return
        if reason:
            break
        over.wait(LOOK_S)
    store = SharedStore(layout.database, may_make=False)
    store.insist(lambda db: jobs.ask_run_to_stop(db, guid, reason))
    os.kill(os.getppid(), signal.SIGTERM)  # its supervisor, which looks why
