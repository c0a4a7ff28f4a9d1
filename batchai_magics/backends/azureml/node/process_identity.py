"""Which process of a job this is, and where the others are: by the variables that the service sets. Pure."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from batchai_magics.launch.plan import Plan, Role
from batchai_magics.launch.references import Bindings

_RANKS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "RANK")
_MASTERS = ("MASTER_ADDR", "AZ_BATCHAI_MPI_MASTER_NODE", "AZ_BATCH_MASTER_NODE")
_MASTER_ROLES = ("chief", "master")


class ProcessIdentity(NamedTuple):
    """This process: its rank, its node's number and name, and the addresses of all nodes."""

    rank: int
    node: int
    node_name: str
    addresses: Sequence[str]
    ports: Sequence[int]

    def bindings(self, plan: Plan, folder: str, core_count: int) -> Bindings:
        """The values of the references in the plan; `folder` is where the service starts processes."""
        threads = max(1, core_count // max(1, plan.processes_per_node))
        names = [f"node-{number}" for number in range(len(plan.nodes))]
        names[self.node] = self.node_name
        return Bindings(names, self.addresses, self.ports, folder, (), threads)


def identity_of(env: Mapping[str, str], plan: Plan, host: str) -> ProcessIdentity:
    """The identity of the process with these variables; `host` is the name of its machine."""
    config = _tf_config(env)
    rank = _rank_in(config, plan) if config else _rank(env)
    rank = min(rank, len(plan.processes) - 1)
    node = plan.processes[rank].node
    name = env.get("AZ_BATCH_NODE_ID") or env.get("HOSTNAME") or host
    return ProcessIdentity(rank, node, name, _addresses(env, plan, node, host), _ports(env, config))


def hosts_of_tasks(env: Mapping[str, str]) -> dict[str, str]:
    """The variables of Batch AI with the hosts of TensorFlow's tasks, as the service has placed them."""
    cluster = _tf_config(env).get("cluster") or {}
    workers = [host for role in (*_MASTER_ROLES, "worker") for host in cluster.get(role, ())]
    hosts = {"AZ_BATCHAI_WORKER_HOSTS": workers, "AZ_BATCHAI_PS_HOSTS": cluster.get("ps", ())}
    return {name: ",".join(listed) for name, listed in hosts.items()} if cluster else {}


def _rank(env: Mapping[str, str]) -> int:
    return next((int(env[name]) for name in _RANKS if env.get(name, "").isdecimal()), 0)


def _tf_config(env: Mapping[str, str]) -> Mapping[str, Any]:
    try:
        found = json.loads(env.get("TF_CONFIG") or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) and "task" in found else {}


def _rank_in(config: Mapping[str, Any], plan: Plan) -> int:
    """The rank of TensorFlow's task: masters and workers come before parameter servers."""
    task, masters = config["task"], [role for role in _MASTER_ROLES if config["cluster"].get(role)]
    index = int(task.get("index") or 0)
    if task.get("type") == Role.PARAMETER_SERVER.value:
        return sum(process.role is not Role.PARAMETER_SERVER for process in plan.processes) + index
    return index + (len(masters) if task.get("type") == Role.WORKER.value else 0)


def _addresses(env: Mapping[str, str], plan: Plan, node: int, host: str) -> Sequence[str]:
    """The addresses of the nodes; where the service does not list them, those that are known."""
    listed = (env.get("AZ_BATCH_HOST_LIST") or env.get("AZ_BATCH_NODE_LIST", "").replace(";", ",")).split(",")
    if len(listed) == len(plan.nodes) and all(listed):
        return listed
    addresses = [f"node-{number}" for number in range(len(plan.nodes))]
    master = next((env[name].partition(":")[0] for name in _MASTERS if env.get(name)), "")
    addresses[node] = host
    addresses[0] = master or addresses[0]
    return addresses


_ANY_PORT = 6105  # where the service names none


def _ports(env: Mapping[str, str], config: Mapping[str, Any]) -> Sequence[int]:
    """The ports of TensorFlow's tasks, or the one of PyTorch's master."""
    cluster = config.get("cluster") or {}
    tasks = [host for role in (*_MASTER_ROLES, "worker", "ps") for host in cluster.get(role, ())]
    if tasks:
        return [int(host.rpartition(":")[2]) for host in tasks]
    given = env.get("MASTER_PORT", "")
    return [int(given) if given.isdecimal() else _ANY_PORT]


def environment(
    env: Mapping[str, str], of_node: Mapping[str, str], of_process: Mapping[str, str], folder: str
) -> dict[str, str]:
    """The variables of a process: the planned ones, except for the service's own facts of its nodes.

    Paths below `folder` are always ours, and so is what the job itself gives.
    """
    facts = {name for name in of_node if name.startswith(_OF_NODES)}
    facts |= {name for name in of_process if name.startswith((*_OF_NODES, *_OF_PROCESSES))}
    planned = {**of_node, **of_process}
    kept = {name for name in facts if env.get(name) and folder not in planned[name]}
    ours = {name: value for name, value in planned.items() if name not in kept}
    return {**env, **ours, **hosts_of_tasks(env)}


_OF_NODES = ("AZ_BATCH", "CCP_NODES")
_OF_PROCESSES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TF_CONFIG")


def cores() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
