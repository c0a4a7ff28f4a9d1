"""What earlier versions did not write down: Plans of queued jobs, and how nodes are set up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batchai_magics.backends.base.backend_registry import load_settings
from batchai_magics.backends.folders import run_planner
from batchai_magics.backends.local.machine_devices import machine_site
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.backends.local.state import node_table, resource_table
from batchai_magics.backends.local.watch.plan_binding import SetupPlan, SubmittedRun
from batchai_magics.backends.service import resource_views, stored_descriptions
from batchai_magics.backends.service.home_folders import RunFolder
from batchai_magics.models.resource_ids import ResourceId

if TYPE_CHECKING:
    from batchai_magics.backends.folders.layout import Layout
    from batchai_magics.backends.local.state.job_table import JobRow
    from batchai_magics.backends.local.state.store import Store
    from batchai_magics.backends.service.runner import Site


def write_submitted(store: Store, layout: Layout, run: JobRow) -> None:
    """Makes the folder of a queued job, and writes its Plans there."""
    with store.read() as db:
        row = resource_table.by_key(db, run.key)
        spec = stored_descriptions.job_spec(row.spec)
        cluster = resource_table.get(db, ResourceId.parse(spec.cluster.id))
        cluster_guid = node_table.get_cluster(db, run.cluster).guid
    folder = RunFolder(
        guid=run.guid,
        segment=stored_descriptions.output_segment(row.resource_id, run.guid),
        spec=spec,
        cluster_guid=cluster_guid,
        cluster=resource_views.cluster_spec(cluster.spec),
        output_root=run.output_root,
        container_engine=run.engine,
        site=_site(),
    )
    launch = run_planner.RunPlanner(layout, folder).launch()
    submitted = SubmittedRun(launch.plan, launch.preparation, launch.port_count)
    submitted.write(layout.job(run.guid).submitted)


def write_setup(store: Store, layout: Layout, cluster_guid: str) -> None:
    """Writes down how the nodes of a cluster are set up."""
    with store.read() as db:
        spec = resource_views.cluster_spec(resource_table.by_guid(db, cluster_guid).spec)
    setup = run_planner.node_setup(layout, cluster_guid, spec, _site())
    SetupPlan(setup.plan, setup.is_elevated).write(layout.cluster_setup(cluster_guid))


def _site() -> Site:
    return machine_site(load_settings().for_backend(LocalSettings).disk_grace_s)
