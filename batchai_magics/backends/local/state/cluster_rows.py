"""Clusters in the store: made and resized."""

from __future__ import annotations

import json
import sqlite3
import time
from dataclasses import dataclass

from batchai_magics.backends.local.folders import mounts
from batchai_magics.backends.local.folders.layout import Layout
from batchai_magics.backends.local.state import nodes, usage
from batchai_magics.backends.local.state.catalog import not_found, wire_text
from batchai_magics.backends.local.state.job_rows import values_of
from batchai_magics.backends.local.state.store import Store
from batchai_magics.backends.local.watch import autoscale
from batchai_magics.models.cluster import ClusterPatch, ClusterSpec
from batchai_magics.models.ids import ResourceId
from batchai_magics.models.states import DeallocationOption


@dataclass(frozen=True)
class Limits:
    """Settings of the backend.

    The cores that all clusters may have together, how long a node of an auto-scale cluster may be idle,
    and the command that runs containers (found by itself when empty).
    """

    core_quota: int = usage.DEFAULT_CORES
    idle_s: float = autoscale.DEFAULT_IDLE_S
    container_command: str = ""


def insert(db: sqlite3.Connection, id: ResourceId, spec: ClusterSpec, *, guid: str, limits: Limits) -> None:
    """Writes a new cluster down, with its first nodes, in an open transaction."""
    scale = spec.scale_settings.auto_scale if spec.scale_settings else None
    usage.check(db, spec.vm_size, spec.target_node_count, limits.core_quota, except_for=id.key)
    db.execute(
        "INSERT INTO cluster (key, guid, target, minimum, maximum, idle_s, changed)"
        " VALUES (?, ?, 0, ?, ?, ?, ?)",
        (
            *(id.key, guid, scale and scale.minimum_node_count, scale and scale.maximum_node_count),
            *(limits.idle_s, time.time()),
        ),
    )
    nodes.resize(db, id.key, spec.target_node_count, DeallocationOption.REQUEUE)


def with_setup_suffix(spec: ClusterSpec, id: ResourceId, guid: str) -> ClusterSpec:
    """The description with the path that the service adds for a setup task's logs."""
    setup = spec.node_setup
    if not (setup and setup.setup_task):
        return spec
    suffix = f"{id.subscription}/{id.group}/workspaces/{id.workspace}/clusters/{id.name}/{guid}"
    task = setup.setup_task.model_copy(update={"std_out_err_path_suffix": suffix})
    return spec.model_copy(update={"node_setup": setup.model_copy(update={"setup_task": task})})


def check_setup(layout: Layout, spec: ClusterSpec) -> None:
    """Raises a SpecError when a setup task's output would be on no mount."""
    if spec.node_setup and spec.node_setup.setup_task:
        mounts.setup_logs(layout, spec)


def setup_secrets(spec: ClusterSpec) -> dict[str, str]:
    """The secret variables of a cluster's setup task."""
    task = spec.node_setup.setup_task if spec.node_setup else None
    return values_of(task.secrets if task else None)


def resize(store: Store, id: ResourceId, patch: ClusterPatch, *, limits: Limits) -> list[str]:
    """Changes a cluster's scale; gives the guids of jobs that have to stop for it."""
    manual, auto = patch.scale_settings.manual, patch.scale_settings.auto_scale
    with store.write() as db:
        row = db.execute(
            "SELECT * FROM resource JOIN cluster USING (key) WHERE key = ?", (id.key,)
        ).fetchone()
        if row is None:
            raise not_found(db, id)
        old = ClusterSpec.from_wire(json.loads(row["spec"]))
        spec = old.model_copy(update={"scale_settings": patch.scale_settings})
        db.execute("UPDATE resource SET spec = ? WHERE key = ?", (wire_text(spec), id.key))
        db.execute(
            "UPDATE cluster SET minimum = ?, maximum = ? WHERE key = ?",
            (auto and auto.minimum_node_count, auto and auto.maximum_node_count, id.key),
        )
        if auto:
            present = max(auto.minimum_node_count, min(auto.maximum_node_count, row["target"]))
            return nodes.resize(db, id.key, present, DeallocationOption.REQUEUE)
        assert manual, "ScaleSettings holds one of the two"
        usage.check(db, spec.vm_size, manual.target_node_count, limits.core_quota, except_for=id.key)
        return nodes.resize(db, id.key, manual.target_node_count, manual.node_deallocation_option)
