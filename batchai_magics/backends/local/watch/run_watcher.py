"""The process that watches a run beside its supervisor: stop conditions, live exports, notifications.

It is separate from the supervisor, which stays small and starts fast without the log readers. Only runs that
need one have it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from batchai_magics.backends.folders.layout import JobLayout, Layout
from batchai_magics.backends.local.state import job_table
from batchai_magics.backends.local.watch.detached_process import SharedStore, start_command
from batchai_magics.backends.node.watch_process import WatchProcess, end_signal, watch_options, watching
from batchai_magics.backends.service import private_files
from batchai_magics.models.prices import NodeTime
from batchai_magics.records.record_files import WATCH


def watched(
    job: JobLayout, *, env: Mapping[str, str], warn: Callable[[str], None], lost: Callable[[str], None]
) -> AbstractContextManager[WatchProcess | None]:
    """Runs the watcher while the block runs, if the run needs one; warns of what could not be done."""
    if not (job.stop_if.exists() or (job.records / WATCH).exists()):
        return contextlib.nullcontext()
    home, guid = job.root.parents[1], job.root.name
    words = start_command(sys.executable, "run_watcher", [str(home), guid])
    os.close(private_files.opener(str(job.supervisor_log), os.O_WRONLY | os.O_CREAT))
    options = watch_options(job.stop_if, job.records / WATCH)
    child = WatchProcess(words, log=job.supervisor_log, env=env, options=options, lost=lost)
    return watching(child, warn=warn)


def main() -> None:
    """Watches the run until the supervisor sends SIGTERM; then prints what could not be done."""
    from batchai_magics.backends.folders import run_watch

    home, guid = sys.argv[1:3]
    layout = Layout(Path(home))
    over, store = end_signal(), SharedStore(layout.database, may_make=False)

    def stop(reason: str) -> None:
        store.insist(lambda db: job_table.ask_run_to_stop(db, guid, reason))
        os.kill(os.getppid(), signal.SIGTERM)  # the supervisor, which then reads the reason

    times = _node_times(store, guid)
    notes = run_watch.watch(layout.job(guid), over, stop, by=os.uname().nodename, times=times)
    print(*notes, sep="\n", flush=True)


def _node_times(store: SharedStore, guid: str) -> list[NodeTime]:
    """The node times of all attempts of a run."""
    with store.read() as db:
        run = job_table.find_by_guid(db, guid)
    attempts = run.attempts if run else ()
    return [NodeTime(len(each["nodes"]), each["started"], each.get("ended")) for each in attempts]
