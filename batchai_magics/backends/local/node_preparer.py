"""The process that mounts volumes for one node and runs its setup task; it outlives the cluster's creator."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from pathlib import Path

from batchai_magics.backends.folders import private_files
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.local import process, reconciler, unmanaged_mounts
from batchai_magics.backends.local.state import node_table
from batchai_magics.backends.local.state.store import Store
from batchai_magics.backends.node.outcome import setup_problem
from batchai_magics.backends.node.ranks import termination
from batchai_magics.backends.node.ranks.ranks import Ranks
from batchai_magics.backends.node.ranks.signal_pipe import SignalPipe
from batchai_magics.launch.plan import Plan
from batchai_magics.models.job_execution import node_name


def main() -> None:
    """Prepares one node (`HOME NODE`), then starts queued jobs on it."""
    layout, node = Layout(Path(sys.argv[1])), sys.argv[2]
    secrets: dict[str, str] = json.load(sys.stdin)
    store = Store(layout.database, may_make=False)
    with store.read() as db:
        nodes = node_table.preparing(db, node)
    if not nodes:  # removed meanwhile
        return
    (new,) = nodes
    plan_file = layout.setup(new.cluster, new.id)
    plan = Plan.read(str(plan_file))
    problem = unmanaged_mounts.mount_for_node(store, layout, new, plan.mounts)
    if plan.processes and not problem:
        stderr = plan.output.stderr.path
        for note in plan.notes:
            with open(stderr, "a", encoding="utf-8", opener=private_files.opener) as log:
                log.write(f"warning: {note}\n")
        env = {**process.clean_environment(sys.executable), **secrets}
        with contextlib.closing(Ranks(plan, SignalPipe((signal.SIGCHLD,)), env=env)) as ranks:
            ranks.start()
            while ranks.is_running:
                ranks.poll(None)
            code = ranks.ends[0].exit_code if ranks.ends else 0
            code = code or (os.EX_IOERR if ranks.unwritable else 0)  # its output cannot be written
        termination.end_all(lambda: process.marked(plan.guid))
        problem = setup_problem(node_name(node), code, stderr) if code else ""
    reconciler.finish_preparation(store, node, problem)
    reconciler.reconcile(store, layout)
