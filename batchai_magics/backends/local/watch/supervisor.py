"""The one process that watches over one job; it outlives the kernel that submitted it.

Started as `python supervisor.py HOME KEY GUID` in a session of its own, with the job's secrets as JSON on its
standard input (the only place they ever are). It waits for its nodes, prepares them, starts the
processes, and tells the store how they ended; then it starts the next queued job.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from batchai_magics.backends.folders.layout import JobLayout, Layout
from batchai_magics.backends.local.folders import mpi_segments, unmanaged
from batchai_magics.backends.local.state.store import Store
from batchai_magics.backends.local.watch import process
from batchai_magics.backends.local.watch.due import may_be_due
from batchai_magics.backends.local.watch.job_run import JobRun
from batchai_magics.backends.local.watch.job_secrets import JobSecrets
from batchai_magics.backends.local.watch.shared_store import SharedStore
from batchai_magics.backends.local.watch.verdict import Verdicts
from batchai_magics.backends.node.outcome import not_run

HOLD_S = 0.2  # between looks at the queue of a job that waits with its secrets in memory


def main() -> None:
    """Waits until the job has its nodes, runs it, records the outcome, starts the next one."""
    home, key, guid = sys.argv[1:4]
    secrets = JobSecrets.from_message(json.load(sys.stdin))
    layout = Layout(Path(home))
    store = SharedStore(layout.database, may_make=False)
    verdicts = Verdicts(store, key, guid, layout.job(guid))
    process.adopt_orphans()
    if not verdicts.claim():
        return
    while _wait_for_nodes(verdicts, layout.job(guid)):
        is_again = verdicts.begin() and _run(layout.job(guid), verdicts, secrets)
        _settle(store, layout)
        if not (is_again and secrets):  # a job that is queued again keeps who knows its secrets
            return


def _settle(store: Store, layout: Layout) -> None:
    """Starts what can start now. The next job needs the models, which take long: only if there may be one."""
    if may_be_due(store):
        from batchai_magics.backends.local.watch import upkeep

        upkeep.settle(store, layout)
    else:
        unmanaged.sweep_nodes(store, layout)
        unmanaged.sweep_mounts(store, layout)


def _run(job: JobLayout, verdicts: Verdicts, secrets: JobSecrets) -> bool:
    """Runs the job and records its end; whether it is queued again."""
    may_leave_memory = True
    try:
        run = JobRun(job, verdicts, secrets)
        outcome = run.run()
        may_leave_memory = run.may_leave_memory
    except Exception as error:  # noqa: BLE001 whatever it was, the job must not stay "running"
        outcome = not_run(error)
    if outcome.is_requeued:
        job.plan.unlink(missing_ok=True)  # other nodes, another plan
    verdicts.finish(outcome)
    if may_leave_memory:
        mpi_segments.sweep()
    return outcome.is_requeued


def _wait_for_nodes(verdicts: Verdicts, job: JobLayout) -> bool:
    """Waits for the assignment; False when the job was ended before."""
    while verdicts.is_open():
        if verdicts.is_assigned() and job.plan.exists():
            return True
        time.sleep(HOLD_S if not verdicts.is_assigned() else 0.01)
    return False


if __name__ == "__main__":
    main()
