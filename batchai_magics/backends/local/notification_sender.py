"""The process that delivers the notifications of a run that has ended; it outlives whoever started it.

The supervisor starts it; if the supervisor died, or nothing could be delivered, the next pass of
reconciliation does.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.folders.outbox import RETRY_LATER_S, Outbox, Sender, end_notifications
from batchai_magics.backends.local import process
from batchai_magics.backends.local.state import job_table
from batchai_magics.backends.local.state.store import Store
from batchai_magics.backends.node.job_layout import JobLayout
from batchai_magics.models.states import WARNINGS

MODULE = "notification_sender"
CREDENTIALS = "MLFLOW_TRACKING_"  # prefix of the variables that deliveries may need
ORPHAN_S = 600.0  # after which an outbox without a run is one of a job that was never created


def main() -> None:
    """Delivers the notifications of one run (`HOME GUID`); reads credentials of exports from stdin."""
    home, guid = Path(sys.argv[1]), sys.argv[2]
    os.environ.update(json.loads(sys.stdin.readline() or "{}"))
    layout, box = Layout(home), Outbox(home, guid)
    with Store(layout.database, may_make=False).read() as db:
        run = job_table.find(db, guid)
    if run and run.outcome:
        failures = tuple(error for error in run.outcome.errors if error["code"] not in WARNINGS)
        for notification in end_notifications(layout.job(guid), run.outcome._replace(errors=failures)):
            box.put(notification)
    is_all_sent = Sender(box, by=socket.gethostname()).send()
    if run and run.is_open:
        box.release()
    elif is_all_sent:
        box.remove()
    else:
        box.hand_over(process.own_identity(), until=time.time() + RETRY_LATER_S)


def start(job: JobLayout, env: Mapping[str, str] = {}) -> list[subprocess.Popen[bytes]]:
    """Starts a sender for a run if it has notifications and no sender; `env` may have its secrets."""
    box = Outbox.of_run(job)
    with contextlib.suppress(OSError):  # notifications never fail a run; the next pass tries again
        if box.is_used and box.claim(process.own_identity(), process.is_alive):
            home, guid = job.root.parents[1], job.root.name
            log = job.supervisor_log if job.root.exists() else Layout(home).outboxes / "sender.log"
            credentials = {name: env[name] for name in env if name.startswith(CREDENTIALS)}
            child = process.start(MODULE, (str(home), guid), log=log, secrets=credentials)
            box.hand_over(process.identity_of_child(child.pid))
            return [child]
    return []


def start_missing(store: Store, layout: Layout) -> list[subprocess.Popen[bytes]]:
    """Starts a sender for each run that has ended without one; returns the processes, for reaping."""
    try:
        folders = [entry for entry in layout.outboxes.iterdir() if entry.is_dir()]
    except OSError:  # no run has notifications
        return []
    started = []
    for folder in folders:
        with store.read() as db:
            run = job_table.find(db, folder.name)
        if not run.is_open if run else _age_s(folder) > ORPHAN_S:
            started += start(layout.job(folder.name), os.environ)
    return started


def _age_s(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0.0
