"""The process that watches a run beside its supervisor: stop conditions, live exports, notifications.

It is separate from the supervisor, which stays small and starts fast without the log readers. Only runs that
need one have it.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.local.state import job_table
from batchai_magics.backends.local.watch.detached_process import SharedStore
from batchai_magics.backends.node.watch_process import end_signal
from batchai_magics.models.prices import NodeTime


def main() -> None:
    """Watches the run until the supervisor sends SIGTERM; then prints what could not be done."""
    from batchai_magics.backends.folders import run_watch

    home, guid = sys.argv[1:3]
    layout = Layout(Path(home))
    over, store = end_signal(), SharedStore(layout.database, may_make=False)

    def stop(reason: str) -> None:
        store.insist(lambda db: job_table.ask_run_to_stop(db, guid, reason))
        os.kill(os.getppid(), signal.SIGTERM)  # the supervisor, which then reads the reason

    with store.read() as db:
        run = job_table.find_by_guid(db, guid)
    attempts = run.attempts if run else ()
    times = [NodeTime(len(each["nodes"]), each["started"], each.get("ended")) for each in attempts]
    notes = run_watch.watch(layout.job(guid), over, stop, by=os.uname().nodename, times=times)
    print(*notes, sep="\n", flush=True)
