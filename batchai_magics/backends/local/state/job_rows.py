"""Jobs in the store: made, and where their output is."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from batchai_magics.backends.local.folders import mounts
from batchai_magics.backends.local.folders.layout import Layout
from batchai_magics.backends.local.state.catalog import not_found
from batchai_magics.backends.local.state.store import Store
from batchai_magics.backends.local.watch import process, scheduler
from batchai_magics.backends.local.watch.job_secrets import JobSecrets
from batchai_magics.errors import NotFoundError, Problem, SpecError
from batchai_magics.models.cluster import ClusterSpec
from batchai_magics.models.ids import ResourceId
from batchai_magics.models.job import JobPriority, JobSpec, OutputDirectory
from batchai_magics.models.storage import SecretVariable

_PRIORITY = {JobPriority.LOW: 0, JobPriority.NORMAL: 1, JobPriority.HIGH: 2}


@dataclass(frozen=True)
class Run:
    """One run of a job: its folder name, and the command that runs its containers (empty for the host)."""

    guid: str
    engine: tuple[str, ...] = ()


def insert(db: sqlite3.Connection, layout: Layout, id: ResourceId, spec: JobSpec, run: Run) -> sqlite3.Row:
    """Writes a new job down, in an open transaction; gives its row."""
    cluster = ResourceId.parse(spec.cluster.id)
    found = db.execute("SELECT id, spec FROM resource WHERE key = ?", (cluster.key,)).fetchone()
    if not found:
        raise not_found(db, cluster)
    cluster_spec = ClusterSpec.from_wire(json.loads(found["spec"]))
    _check_size(db, cluster, cluster_spec, spec)
    root = output_root(layout, spec, cluster_spec)
    python = scheduler.python_of_this_process()
    db.execute(
        "INSERT INTO job (key, guid, cluster, node_count, priority, state, changed, output_root, python,"
        " needs_secrets, engine, spawner)"
        " VALUES (?, ?, ?, ?, ?, 'queued', ?, ?, ?, ?, ?, ?)",
        (
            *(
                id.key,
                run.guid,
                cluster.key,
                spec.node_count,
                _PRIORITY[spec.scheduling_priority],
                time.time(),
            ),
            *(str(root), python, bool(secrets_of(spec)), json.dumps(run.engine), process.own_identity()),
        ),
    )
    row: sqlite3.Row = db.execute("SELECT * FROM job WHERE key = ?", (id.key,)).fetchone()
    return row


def _check_size(
    db: sqlite3.Connection, cluster: ResourceId, cluster_spec: ClusterSpec, spec: JobSpec
) -> None:
    query = "SELECT coalesce(maximum, target) FROM cluster WHERE key = ?"
    (target,) = db.execute(query, (cluster.key,)).fetchone()
    if target and spec.node_count > target:
        resize = f"%batchai cluster resize -n {cluster.name} -t {spec.node_count}"
        fix = f"ask for at most {target}, or run `{resize}`"
        text = f"{spec.node_count} nodes are asked for, and cluster {cluster.name} has {target}"
        raise SpecError([Problem("properties.nodeCount", text, fix)])


def output_root(layout: Layout, spec: JobSpec, cluster: ClusterSpec) -> Path:
    """The folder behind the job's stdOutErrPathPrefix; a SpecError when it is on no mount."""
    return mounts.resolve(layout, spec.std_out_err_path_prefix, _mounted(layout, spec, cluster))


def output_folder(layout: Layout, store: Store, job: ResourceId, directory_id: str, segment: str) -> Path:
    """The folder of one of the job's output directories."""
    with store.read() as db:
        (wire,) = db.execute("SELECT spec FROM resource WHERE key = ?", (job.key,)).fetchone()
        spec = JobSpec.from_wire(json.loads(wire))
        row = db.execute(
            "SELECT spec FROM resource WHERE key = ?", (ResourceId.parse(spec.cluster.id).key,)
        ).fetchone()
    outputs = {output.id.lower(): output for output in spec.output_directories or ()}
    output = outputs.get(directory_id.lower())
    text = f"The specified outputDirectoryId {directory_id} is not present on a mount root"
    if not (output and row):
        known = ["stdouterr", *(known.id for known in outputs.values())]
        raise NotFoundError(text, code="OutputDirectoryNotFound", hint=f"This job has: {', '.join(known)}.")
    mounted = _mounted(layout, spec, ClusterSpec.from_wire(json.loads(row["spec"])))
    try:
        return _inside(mounts.resolve(layout, output.path_prefix.rstrip("/"), mounted), output, segment)
    except SpecError as error:  # anywhere on the machine, or on an unmanaged file system
        hint = f"It is at {output.path_prefix} on the job's nodes."
        raise NotFoundError(text, code="OutputDirectoryNotFound", hint=hint) from error


def _inside(base: Path, output: OutputDirectory, segment: str) -> Path:
    own = Path(segment, "outputs") if output.create_new is not False else Path()
    return base / own / (output.path_suffix or "")


def _mounted(layout: Layout, spec: JobSpec, cluster: ClusterSpec) -> dict[str, dict[str, Path]]:
    volumes = cluster.node_setup.mount_volumes if cluster.node_setup else None
    return {
        "AZ_BATCHAI_MOUNT_ROOT": mounts.with_default(layout, volumes),
        "AZ_BATCHAI_JOB_MOUNT_ROOT": mounts.with_default(layout, spec.mount_volumes),
    }


def secrets_of(spec: JobSpec) -> JobSecrets:
    """The secrets of a job, for its supervisor's memory alone."""
    source = spec.container_settings.image_source_registry if spec.container_settings else None
    password = source.credentials.password if source and source.credentials else None
    return JobSecrets(values_of(spec.secrets), password.get_secret_value() if password else "")


def values_of(secrets: Sequence[SecretVariable] | None) -> dict[str, str]:
    """The values of secret variables, by name."""
    return {item.name: item.value.get_secret_value() for item in secrets or () if item.value is not None}
