"""Binds the Plan of a submitted job to the nodes that it has got: what its supervisor starts.

It does without the models, which take longer to load than a short job takes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.folders.run_end import make_attempt_files
from batchai_magics.backends.local import machine_devices
from batchai_magics.backends.local.state import node_table
from batchai_magics.backends.local.state.store import Store
from batchai_magics.backends.node import mpi_launchers
from batchai_magics.backends.node.job_environment import RUN_SCRIPT, free_ports
from batchai_magics.backends.node.job_layout import JobLayout
from batchai_magics.backends.service import private_files
from batchai_magics.launch.plan import Plan, thread_share
from batchai_magics.launch.references import Bindings
from batchai_magics.untrusted_files import MAX_PLAN_BYTES, read_json, read_text

LOOPBACK = "127.0.0.1"  # all nodes are on this machine


def bind(store: Store, layout: Layout, guid: str) -> Plan:
    """Makes the folders of a run that has got its nodes; returns its Plan, which is written as well.

    LookupError if the nodes are unknown.
    """
    with store.read() as db:
        nodes = node_table.job_nodes(db, guid)
    if not nodes:
        raise LookupError("The database was lost, and with it which nodes the job has: submit it again")
    job = layout.job(guid)
    plan = Plan.from_json(read_text(job.submitted, MAX_PLAN_BYTES))
    here = machine_devices.machine()
    # of a node that is shared, the job has the same part of the cores as of the GPUs
    first = nodes[0]
    cores, gpus = here.core_share(first.mates), here.gpu_share(first.position, first.mates)
    if first.gpus and gpus:
        cores = max(1, cores * len(first.gpus.split(",")) // len(gpus))
    bindings = Bindings(
        nodes=[node.id for node in nodes],
        addresses=[LOOPBACK] * len(nodes),
        ports=free_ports(plan.port_count, LOOPBACK),
        devices=[node.gpus or ",".join(here.gpu_share(node.position, node.mates)) for node in nodes],
        threads=thread_share(cores, plan.processes_per_node),
    )
    if job.preflight.exists():
        body = {"home": str(layout.home), "bindings": bindings._asdict()}
        private_files.write(job.bindings, json.dumps(body))
    return _bound(plan, bindings, home=layout.home, job=job)


def bind_smaller(job: JobLayout, plan: Plan, numbers: Sequence[int]) -> Plan:
    """The plan of a bound job for some of its nodes, which replaces that for all."""
    body = read_json(job.bindings, MAX_PLAN_BYTES)
    return _bound(plan, Bindings(**body["bindings"]).of_nodes(numbers), home=Path(body["home"]), job=job)


def _bound(plan: Plan, bindings: Bindings, *, home: Path, job: JobLayout) -> Plan:
    """The plan of a job with these bindings and this machine's programs; writes it, and creates its files."""
    plan = plan.resolved(bindings)
    make_attempt_files(job, plan)
    chosen = mpi_launchers.with_open_mpi(plan, programs=job.bin, hosts=job.host_file)
    bound = mpi_launchers.with_launcher_note(chosen) if chosen.notes == plan.notes else chosen
    if bound.containers.engine:
        from batchai_magics.backends.node import containers  # few jobs need it

        folders = (home, Path(RUN_SCRIPT))
        bound = bound.changed(lambda part: containers.in_containers(part, folders))
    bound.write(str(job.plan))
    return bound
