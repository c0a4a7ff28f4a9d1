"""Variables of a process that describe its nodes, as in Azure Batch, and its thread counts. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from batchai_magics.launch.job_site import JobSite, NodeShare
from batchai_magics.launch.references import ReferenceKind, joined, reference

_MASTER_PORT = 6000  # the port in Azure Batch's address of the first node


def batch_variables(node: NodeShare, nodes: Sequence[NodeShare], site: JobSite) -> dict[str, str]:
    """The variables that describe the job's nodes and their folders to a process on `node`."""
    hosts = [_host(item) for item in nodes]
    is_first = node.id == nodes[0].id
    return {
        "AZ_BATCH_HOST_LIST": joined(hosts, ","),
        "AZ_BATCH_NODE_LIST": joined(hosts, ";"),
        "CCP_NODES": joined([str(len(hosts)), *(joined([host, " 1"]) for host in hosts)], " "),
        "AZ_BATCH_MASTER_NODE": joined([hosts[0], f":{_MASTER_PORT}"]),
        "AZ_BATCH_IS_CURRENT_NODE_MASTER": str(is_first).lower(),
        "AZ_BATCH_NODE_ID": node.id,
        "AZ_BATCH_TASK_WORKING_DIR": node.temp,
        "AZ_BATCH_TASK_SHARED_DIR": site.shared_temp,
        "AZ_BATCHAI_JOB_MASTER_NODE_IP": hosts[0],
        "AZ_BATCHAI_NUM_GPUS_PER_NODE": str(node.gpu_count),
    }


def _host(node: NodeShare) -> str:
    return node.address or node.id


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


def thread_share(core_count: int, processes_per_node: int) -> int:
    """The threads of a process that shares the cores of its node with the others there."""
    return max(1, core_count // max(1, processes_per_node))


def describe_threads(said: Mapping[str, str], processes_per_node: int) -> str:
    """The description of the thread counts in a dry run."""
    own = [f"{name}={said[name]}" for name in THREADS if name in said]
    if own:
        return f"threads of a process: {', '.join(own)}, as the job says"
    among = f", shared by {processes_per_node} processes" if processes_per_node > 1 else ""
    return f"threads of a process: its node's cores{among} (OMP_NUM_THREADS and its like; --env sets another)"
