"""Where a job runs: what planning knows of its nodes, and the variables that describe them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from batchai_magics.launch.plan import LogPaths, Output, PlanNode, thread_share
from batchai_magics.launch.references import ReferenceKind, SharedTexts, joined, reference

NO_RECORDS = Output(LogPaths(""), LogPaths(""))


@dataclass(frozen=True)
class JobSite:
    """What the nodes of a job share: folders, interpreters, hardware; addresses, devices and free TCP ports.

    Those of nodes that are yet unknown are references. `records` says where ranks record spans and times of
    both streams, `hidden` is the folder for the redacted spans of each log.
    """

    stdouterr: str
    shared_temp: str
    host_file: str
    output_segment: str
    mount_root: str
    job_mount_root: str
    python: str  # runs the job's scripts
    addresses: tuple[str, ...]  # where other nodes reach the processes of each node
    gpu_count: int = 0  # of each node
    core_count: int | None = 1  # of each node; None as long as the nodes are unknown
    devices: tuple[str, ...] = ()  # of each node, as CUDA_VISIBLE_DEVICES has them; none: not ours
    python_wrapper: str = ""  # runs a script so that an error in one rank ends the job
    ports: tuple[int | str, ...] = ()
    guid: str = ""
    rank_python: str = ""  # runs the rank program
    exits: str = ""
    preparation_exits: str = ""
    records: Output = NO_RECORDS
    hidden: str = ""
    telemetry: str = ""  # folder for resource usage samples
    machines: str = ""  # folder for records of the machines
    device_order: str = "PCI_BUS_ID"  # how CUDA numbers GPUs: like the driver's tools
    disk_grace_s: float = 60.0
    module_path: str = ""  # appended to the job's own PYTHONPATH
    checkpoints: str = ""  # the folder that a run keeps between its attempts
    artifacts: str = ""  # the folder of what it saves under a name
    texts: SharedTexts = field(default_factory=SharedTexts)  # of the plan that is being made
    hosts: tuple[str, ...] = ()  # the values of HOST_LISTS, or references to them


_MASTER_PORT = 6000  # the port in Azure Batch's address of the first node


def batch_variables(node: PlanNode, number: int, site: JobSite) -> dict[str, str]:
    """The variables that describe the job's nodes and their folders to a process on one of them."""
    first = site.addresses[0]
    return {
        **dict(zip(HOST_LISTS, site.hosts or host_lists(site.addresses), strict=True)),
        "AZ_BATCH_MASTER_NODE": joined([first, f":{_MASTER_PORT}"]),
        "AZ_BATCH_IS_CURRENT_NODE_MASTER": "false" if number else "true",
        "AZ_BATCH_NODE_ID": node.id,
        "AZ_BATCH_TASK_WORKING_DIR": node.folder,
        "AZ_BATCH_TASK_SHARED_DIR": site.shared_temp,
        "AZ_BATCHAI_JOB_MASTER_NODE_IP": first,
        "AZ_BATCHAI_NUM_GPUS_PER_NODE": str(site.gpu_count),
    }


HOST_LISTS = ("AZ_BATCH_HOST_LIST", "AZ_BATCH_NODE_LIST", "CCP_NODES")


def host_lists(hosts: Sequence[str]) -> tuple[str, ...]:
    """The values of the variables that name all nodes."""
    counted = joined([str(len(hosts)), *(joined([host, " 1"]) for host in hosts)], " ")
    return joined(hosts, ","), joined(hosts, ";"), counted


OMP = "OMP_NUM_THREADS"
THREADS = (OMP, "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def thread_variables(
    core_count: int | None, processes_per_node: int, given: Mapping[str, str]
) -> dict[str, str]:
    """The thread count variables of a process; a given OMP_NUM_THREADS applies to the other libraries too.

    Without a number of cores the count is a reference.
    """
    if OMP in given:
        count = given[OMP].partition(",")[0]  # counts of nested loops follow a comma
    elif core_count is None:
        count = reference(ReferenceKind.THREADS, 0)
    else:
        count = str(thread_share(core_count, processes_per_node))
    return {**dict.fromkeys(THREADS, count), **{name: given[name] for name in THREADS if name in given}}
