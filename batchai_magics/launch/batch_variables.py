"""The variables of Azure Batch, which the service ran on, as far as recipes of Batch AI read them. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from batchai_magics.launch.nodes import JobSite, NodeShare
from batchai_magics.launch.references import joined

_MASTER_PORT = 6000  # where Azure Batch said that the first node is


def batch_variables(node: NodeShare, nodes: Sequence[NodeShare], site: JobSite) -> dict[str, str]:
    """What a process on `node`, which is one of `nodes`, learns of the job's nodes and their folders."""
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
