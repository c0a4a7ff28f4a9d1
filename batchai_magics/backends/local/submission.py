"""Makes the folder of a job and the Plans of what it starts, before its nodes are known."""

from __future__ import annotations

import os

from batchai_magics.backends.base.backend_registry import load_settings
from batchai_magics.backends.folders.home_directory import HomeDirectory
from batchai_magics.backends.folders.layout import TMPDIR, Layout
from batchai_magics.backends.local import machine_devices
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.backends.local.state import cluster_table, resource_table, stored_resources, stored_specs
from batchai_magics.backends.local.state.job_table import JobRow
from batchai_magics.backends.local.state.store import Database
from batchai_magics.backends.local.watch.plan_binding import SubmittedRun
from batchai_magics.backends.machines.machine import LocalMachine
from batchai_magics.backends.node.node_programs import RUN_SCRIPT
from batchai_magics.backends.service.descriptions import output_segment
from batchai_magics.backends.service.home_folders import RunFolder
from batchai_magics.backends.service.runner import Site
from batchai_magics.models.resource_ids import ResourceId


def submit(db: Database, layout: Layout, run: JobRow, settings: LocalSettings | None = None) -> None:
    """Makes the folder of a recorded job and writes down its plans."""
    row = resource_table.by_key(db, run.key)
    spec = stored_resources.job_spec(row.spec)
    cluster = resource_table.get(db, ResourceId.parse(spec.cluster.id))
    settings = settings or load_settings().for_backend(LocalSettings)
    folder = RunFolder(
        guid=run.guid,
        segment=output_segment(row.id, run.guid),
        spec=spec,
        cluster_guid=cluster_table.get(db, run.cluster).guid,
        cluster=stored_specs.cluster_spec(cluster.spec),
        output_root=run.output_root,
        container_engine=run.engine,
        site=site(run.python, disk_grace_s=settings.disk_grace_s),
    )
    launch = HomeDirectory(layout, LocalMachine(), setting="BATCHAI_HOME").make_run(folder)
    SubmittedRun(launch.plan, launch.preparation, launch.port_count).write(layout.job(run.guid).submitted)


def site(python: str, *, disk_grace_s: float) -> Site:
    """What a Plan needs to know of this machine."""
    return Site(
        python=python,
        script_wrapper=RUN_SCRIPT,
        environ=os.environ,
        core_count=None,
        disk_grace_s=disk_grace_s,
        has_devices=bool(machine_devices.machine().gpus),
        tmpdir=TMPDIR,
    )
