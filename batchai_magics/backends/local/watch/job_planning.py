"""Writes the plan of an assigned job: folders, links, and what the supervisor starts.

Supervisors plan the next job with it, so it loads the models, which take longer than a short job, only for
jobs with their own mounts.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchai_magics.backends.base.backend_registry import load_settings
from batchai_magics.backends.folders import mounts, own_logs, private
from batchai_magics.backends.folders.layout import JobLayout, Layout
from batchai_magics.backends.folders.stop_order import StopIfRequest
from batchai_magics.backends.local import machine_devices
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.backends.local.state import node_table, resource_table
from batchai_magics.backends.local.state.job_table import JobRow
from batchai_magics.backends.local.state.node_table import JobNode
from batchai_magics.backends.local.state.store import Store
from batchai_magics.backends.node import containers, mpi_launchers
from batchai_magics.backends.node.node_programs import RUN_SCRIPT, put_job_module, with_module_path
from batchai_magics.backends.node.ports import free_ports
from batchai_magics.backends.node.ranks.gpus import BY_BUS, ORDER
from batchai_magics.backends.service import private_files
from batchai_magics.backends.service.descriptions import output_segment
from batchai_magics.launch import planning as launch
from batchai_magics.launch.job_description import Description
from batchai_magics.launch.job_site import JobSite, NodeShare
from batchai_magics.launch.plan import LogFile, Output, Plan, Process
from batchai_magics.launch.process_variables import THREADS
from batchai_magics.launch.toolkits import port_count
from batchai_magics.models.execution import STDOUTERR

if TYPE_CHECKING:
    from batchai_magics.models.storage import MountVolumes


LOOPBACK = "127.0.0.1"  # all nodes are on this machine


def write(store: Store, layout: Layout, run: JobRow) -> None:
    """Creates the job's folders and writes its plan, atomically."""
    with store.read() as db:
        resource, its_nodes = resource_table.by_key(db, run.key), node_table.job_nodes(db, run.guid)
    fields = json.loads(resource.spec)["properties"]
    asked = Description.of_fields(fields)
    job = layout.job(run.guid)
    _make_folders(job, asked)
    mounts.link(layout, job.mounts, _volumes(fields))
    here = machine_devices.machine()
    shares = [_node_share(layout, job, node, here) for node in its_nodes]
    site = _site(run, job, output_segment(resource.id, run.guid), asked)
    plan = _on_this_machine(launch.plan(asked, shares, site), job, run)
    if job.unmounted in (Path(run.output_root), *Path(run.output_root).parents):
        note = f"stdOutErrPathPrefix {asked.logs} is on no mount: the logs go with the job"
        plan = plan._replace(notes=(*plan.notes, note))
    prepared = launch.preparation(asked, plan, site)
    folders = (layout.home, Path(RUN_SCRIPT))
    if prepared:
        containers.in_containers(prepared, folders).write(str(job.preparation))
    if asked.stop_if:
        StopIfRequest(asked.stop_if, asked.patterns).write(job.stop_if)
    containers.in_containers(plan, folders).write(str(job.plan))


def _make_folders(job: JobLayout, asked: Description) -> None:
    for stale in (job.exits, job.preparation_exits):
        shutil.rmtree(stale, ignore_errors=True)
        private_files.make_folder(stale)
    private_files.make_folder(job.shared_temp)
    if asked.secrets:
        private_files.make_folder(job.hidden)
    put_job_module(job.python)


def _volumes(fields: Mapping[str, Any]) -> MountVolumes | None:
    """The job's own mounts, if any."""
    if "mountVolumes" not in fields:
        return None
    from batchai_magics.models.storage import MountVolumes

    return MountVolumes.of_stored(fields["mountVolumes"])


def _node_share(layout: Layout, job: JobLayout, node: JobNode, here: machine_devices.Machine) -> NodeShare:
    cluster_spec = json.loads(node.spec)["properties"]
    folder = layout.node(node.guid, node.id)
    temp = job.workdir / node.id
    for path in (folder / "tmp", temp):
        private_files.make_folder(path)
    return NodeShare(
        id=node.id,
        gpu_count=machine_devices.gpu_count(cluster_spec["vmSize"]),
        mount_root=str(layout.mounts(node.guid)),
        job_mount_root=str(job.mounts),
        temp=str(temp),
        address=LOOPBACK,
        tmpdir=str(folder / "tmp"),
        devices=here.gpu_share(node.position, node.mates),
        core_count=here.core_share(node.mates),
    )


def _site(run: JobRow, job: JobLayout, segment: str, asked: Description) -> JobSite:
    stdouterr = Path(run.output_root) / segment / STDOUTERR
    private_files.make_folder(stdouterr)
    streams = ("stdout", "stderr")
    return JobSite(
        stdouterr=str(stdouterr),
        shared_temp=str(job.shared_temp),
        host_file=str(job.host_file),
        output_segment=segment,
        python="python" if run.engine else run.python,
        python_wrapper=RUN_SCRIPT,
        ports=free_ports(port_count(asked), LOOPBACK),
        guid=run.guid,
        rank_python=run.python,
        exits=str(job.exits),
        preparation_exits=str(job.preparation_exits),
        records=Output(*(LogFile("", str(job.spans(name)), str(job.times(name))) for name in streams)),
        hidden=str(job.hidden),
        telemetry=str(job.telemetry),
        threads={name: os.environ[name] for name in THREADS if os.environ.get(name)},
        device_order=os.environ.get(ORDER) or BY_BUS,
        disk_grace_s=load_settings().for_backend(LocalSettings).disk_grace_s,
        module_path=""
        if run.engine
        else ":".join(filter(None, [os.environ.get("PYTHONPATH"), str(job.python)])),
    )


def _on_this_machine(plan: Plan, job: JobLayout, run: JobRow) -> Plan:
    """Adds this machine's programs to the plan, and creates its log files."""
    for log in (*(stream.path for stream in plan.output), *plan.execution_logs):
        private.make_file(Path(log))
    plan = own_logs.with_own_logs(plan)
    private.make_file(job.host_file)
    job.host_file.write_text("".join(f"{node.id}\n" for node in plan.nodes), encoding="utf-8")
    if run.engine:  # an image may have a module path of its own
        plan = plan._replace(processes=tuple(_with_module(process, job) for process in plan.processes))
    plan = plan._replace(containers=plan.containers._replace(engine=run.engine))
    plan = containers.with_container_note(plan)
    chosen = mpi_launchers.with_open_mpi(plan, programs=job.bin, hosts=job.host_file)
    return mpi_launchers.with_launcher_note(chosen) if chosen.notes == plan.notes else chosen


def _with_module(process: Process, job: JobLayout) -> Process:
    return process._replace(command=with_module_path(process.command, job.python))
