"""Prepares nodes: folders at once, mount commands and setup tasks in a separate process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping

from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.local.state import node_table
from batchai_magics.backends.local.state.node_table import NewNode
from batchai_magics.backends.local.state.store import Store
from batchai_magics.backends.local.watch import detached_process, process
from batchai_magics.backends.node import requirements
from batchai_magics.backends.service import private_files
from batchai_magics.launch.plan import Plan
from batchai_magics.launch.references import Bindings
from batchai_magics.untrusted_files import MAX_PLAN_BYTES, read_text


def prepare(
    store: Store, layout: Layout, *, secrets: Mapping[str, str] | None = None
) -> list[subprocess.Popen[bytes]]:
    """Prepares every new node; returns the processes that run mount commands and setup tasks."""
    with store.read() as db:
        new = node_table.preparing(db)
    return [child for node in new for child in _prepare(store, layout, node, secrets or {})]


def _prepare(
    store: Store, layout: Layout, node: NewNode, secrets: Mapping[str, str]
) -> list[subprocess.Popen[bytes]]:
    private_files.make_folder(layout.tmpdir(node.guid, node.id))
    try:
        text = read_text(layout.cluster_setup(node.guid), MAX_PLAN_BYTES)
        setup = Plan.from_json(text) if text else None
    except (OSError, ValueError) as error:
        finish_preparation(store, node.id, f"How to set it up cannot be read: {error}")
        return []
    if not setup:
        finish_preparation(store, node.id, "")
    elif not node.preparer:
        return _start(store, layout, node, setup, secrets)
    elif not process.is_alive(node.preparer):
        finish_preparation(store, node.id, "The process that prepared the node disappeared")
    return []


def finish_preparation(store: Store, node: str, problem: str) -> None:
    """Records that a node is ready, or why it is unusable."""
    with store.write() as db:
        node_table.finish_preparation(db, node, problem)


def _start(
    store: Store, layout: Layout, node: NewNode, setup: Plan, secrets: Mapping[str, str]
) -> list[subprocess.Popen[bytes]]:
    plan = requirements.run_elevated(setup.resolved(Bindings([node.id])))
    missing = [name for name in plan.secrets if name not in secrets]
    if missing:
        text = f"The setup task's secrets ({', '.join(missing)}) are not stored: create the cluster again"
        finish_preparation(store, node.id, text)
        return []
    folder = layout.node(node.guid, node.id)
    try:
        (folder / "exits").mkdir(exist_ok=True, mode=private_files.FOLDER)
        plan.write(str(layout.setup(node.guid, node.id)))
    except FileNotFoundError:  # the node was removed meanwhile
        return []
    program = detached_process.Program(
        "node_preparer", (str(layout.home), node.id), sys.executable, folder / "log"
    )
    with store.write() as db:
        is_ours = node_table.claim(db, node.id, process.own_identity())
    if not is_ours:
        return []
    child = detached_process.start(program, secrets=secrets)
    with store.write() as db:
        node_table.set_preparer(db, node.id, process.identity(child.pid))
    return [child]
