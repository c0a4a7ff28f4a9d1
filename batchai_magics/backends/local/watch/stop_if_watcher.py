"""`--stop-if`: a process that reads a job's logs and stops the job when the condition holds.

It is separate from the supervisor, which stays small and starts fast without the log readers. Only jobs with
a stop condition have one.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from batchai_magics.backends.folders.layout import JobLayout, Layout
from batchai_magics.backends.local.state import job_table
from batchai_magics.backends.local.watch.detached_process import start_command
from batchai_magics.backends.local.watch.shared_store import SharedStore
from batchai_magics.backends.node.stop_if_process import watching
from batchai_magics.backends.service import private_files
from batchai_magics.launch.plan import Plan


def watch_stop_conditions(job: JobLayout, *, warn: Callable[[str], None]) -> AbstractContextManager[None]:
    """Runs the watcher while the block runs, if the job has stop conditions; warns of unchecked ones."""
    if not job.stop_if.exists():
        return contextlib.nullcontext()
    home, guid = job.root.parents[1], job.root.name
    words = start_command(sys.executable, "stop_if_watcher", [str(home), guid])
    os.close(private_files.opener(str(job.supervisor_log), os.O_WRONLY | os.O_CREAT))
    return watching(words, log=job.supervisor_log, warn=warn)


def main() -> None:
    """Follows the logs until a condition holds or the supervisor sends SIGTERM.

    Conditions that could not be checked are printed then.
    """
    from batchai_magics.backends.folders.stop_order import StopIfRequest
    from batchai_magics.backends.folders.stop_watch import StopWatch

    home, guid = sys.argv[1:3]
    layout = Layout(Path(home))
    job = layout.job(guid)
    watch = StopWatch(StopIfRequest.read(job.stop_if), Plan.read(str(job.plan)))
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    reason = watch.follow(over)
    if not reason:
        print(*watch.unseen, sep="\n", flush=True)
        return
    store = SharedStore(layout.database, may_make=False)
    store.insist(lambda db: job_table.ask_run_to_stop(db, guid, reason))
    os.kill(os.getppid(), signal.SIGTERM)  # the supervisor, which then reads the reason
