"""Binds the Plan of a submitted job to the nodes that it has got, and writes what its supervisor starts.

The setup of a cluster's nodes is stored likewise. Supervisors bind the plan of the next job with this, so it
does without the models, which take longer than a short job.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from batchai_magics.backends.folders.layout import JobLayout, Layout
from batchai_magics.backends.local import machine_devices
from batchai_magics.backends.local.state import node_table
from batchai_magics.backends.local.state.job_table import JobRow
from batchai_magics.backends.local.state.node_table import JobNode
from batchai_magics.backends.local.state.store import Store
from batchai_magics.backends.node import containers, mpi_launchers, requirements
from batchai_magics.backends.node.job_environment import RUN_SCRIPT, free_ports
from batchai_magics.backends.node.preflight import SmallerPlans
from batchai_magics.backends.service import private_files
from batchai_magics.launch.job_site import thread_share
from batchai_magics.launch.plan import Plan
from batchai_magics.launch.references import Bindings
from batchai_magics.untrusted_files import MAX_PLAN_BYTES, read_json

LOOPBACK = "127.0.0.1"  # all nodes are on this machine


class SubmittedRun(NamedTuple):
    """The plans of a run, which refer to nodes, ports and devices that it does not have yet."""

    plan: Plan
    preparation: Plan | None
    port_count: int

    def write(self, file: Path) -> None:
        """Writes them to a file."""
        preparation = self.preparation.to_json() if self.preparation else ""
        body = {"plan": self.plan.to_json(), "preparation": preparation, "ports": self.port_count}
        private_files.write(file, json.dumps(body))

    @classmethod
    def read(cls, file: Path) -> SubmittedRun:
        """Those in a file."""
        body = read_json(file, MAX_PLAN_BYTES)
        preparation = Plan.from_json(body["preparation"]) if body["preparation"] else None
        return cls(Plan.from_json(body["plan"]), preparation, body["ports"])


def bind(store: Store, layout: Layout, run: JobRow) -> None:
    """Makes the folders of a job that has got its nodes, and writes its plans, the main one last."""
    with store.read() as db:
        nodes = node_table.job_nodes(db, run.guid)
    job = layout.job(run.guid)
    submitted = SubmittedRun.read(job.submitted)
    bindings = _bindings(submitted, nodes)
    _make_folders(layout, job, nodes)
    if job.preflight.exists():
        body = {"home": str(layout.home), "bindings": bindings._asdict()}
        private_files.write(job.bindings, json.dumps(body))
    _write(submitted.plan, submitted.preparation, bindings, home=layout.home, job=job)


def bind_smaller(job: JobLayout, plans: SmallerPlans, numbers: Sequence[int]) -> None:
    """Replaces the plans of a bound job by those for some of its nodes."""
    body = read_json(job.bindings, MAX_PLAN_BYTES)
    preparation = Plan.from_json(plans.preparation) if plans.preparation else None
    bindings = Bindings(**body["bindings"]).of_nodes(numbers)
    _write(Plan.from_json(plans.plan), preparation, bindings, home=Path(body["home"]), job=job)


def _write(plan: Plan, preparation: Plan | None, bindings: Bindings, *, home: Path, job: JobLayout) -> None:
    """Writes the plans of a job with these bindings, the main one last."""
    folders = (home, Path(RUN_SCRIPT))
    if preparation:
        prepared = preparation.resolved(bindings)
        containers.in_containers(prepared, folders).write(str(job.preparation))
    containers.in_containers(_on_this_machine(plan.resolved(bindings), job), folders).write(str(job.plan))


def _bindings(submitted: SubmittedRun, nodes: Sequence[JobNode]) -> Bindings:
    here = machine_devices.machine()
    return Bindings(
        nodes=[node.id for node in nodes],
        addresses=[LOOPBACK] * len(nodes),
        ports=free_ports(submitted.port_count, LOOPBACK),
        devices=[node.gpus or ",".join(here.gpu_share(node.position, node.mates)) for node in nodes],
        threads=thread_share(_core_count(here, nodes[0]), submitted.plan.processes_per_node),
    )


def _core_count(here: machine_devices.MachineDevices, node: JobNode) -> int:
    """The cores of a node; of one that is shared, the same part as of its GPUs."""
    cores, gpus = here.core_share(node.mates), here.gpu_share(node.position, node.mates)
    return max(1, cores * len(node.gpus.split(",")) // len(gpus)) if node.gpus and gpus else cores


def _make_folders(layout: Layout, job: JobLayout, nodes: Sequence[JobNode]) -> None:
    for stale in (job.exits, job.preparation_exits):
        shutil.rmtree(stale, ignore_errors=True)
    for folder in (job.exits, job.preparation_exits, job.checkpoints, job.artifacts):
        private_files.make_folder(folder)
    for node in nodes:
        private_files.make_folder(layout.tmpdir(node.guid, node.id))
        private_files.make_folder(job.workdir / node.id)


def _on_this_machine(plan: Plan, job: JobLayout) -> Plan:
    """Adds this machine's programs to the plan, and creates its log files."""
    for log in (*(stream.path for stream in plan.output), *plan.execution_logs):
        private_files.make_file(Path(log))
    private_files.make_file(job.host_file)
    job.host_file.write_text("".join(f"{node.id}\n" for node in plan.nodes), encoding="utf-8")
    chosen = mpi_launchers.with_open_mpi(plan, programs=job.bin, hosts=job.host_file)
    return mpi_launchers.with_launcher_note(chosen) if chosen.notes == plan.notes else chosen


class SetupPlan(NamedTuple):
    """What each node of a cluster mounts and runs before it takes jobs; nothing without a plan."""

    plan: Plan | None
    is_elevated: bool

    def of_node(self, id: str) -> Plan:
        """The plan of one node."""
        assert self.plan, "most clusters have nothing to set up"
        plan = self.plan.resolved(Bindings([id]))
        return requirements.run_elevated(plan) if self.is_elevated else plan

    def write(self, file: Path) -> None:
        """Writes it to a file."""
        body = {"plan": self.plan.to_json() if self.plan else "", "is_elevated": self.is_elevated}
        private_files.write(file, json.dumps(body))

    @classmethod
    def read(cls, file: Path) -> SetupPlan:
        """Reads it from a file."""
        body = read_json(file, MAX_PLAN_BYTES)
        return cls(Plan.from_json(body["plan"]) if body["plan"] else None, body["is_elevated"])
