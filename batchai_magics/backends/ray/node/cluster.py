"""The Ray cluster that this process is connected to: its nodes, and our actors on it."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from batchai_magics.backends.ray.node import actor_target
from batchai_magics.backends.ray.node.home_files import home_id
from batchai_magics.backends.ray.node.run_files import Session

NAMESPACE = "batchai_magics"
_HEAD = "node:__internal_head__"  # the resource that only the head of a Ray cluster has
_THREADS = 8  # of an actor, for calls at the same time


class RayNode(NamedTuple):
    """A node of the cluster."""

    name: str
    id: str
    address: str
    cpus: int
    gpus: int


def connect(address: str) -> None:
    """Connects this process to a cluster; raises what Ray raises."""
    import ray

    ray.init(address=address or "auto", namespace=NAMESPACE, logging_level="ERROR", log_to_driver=False)


def nodes() -> list[RayNode]:
    """The nodes that are alive, the head first, with names that tell them apart."""
    import ray

    ray_nodes: list[RayNode] = []
    alive = [node for node in ray.nodes() if node["Alive"]]
    for node in sorted(alive, key=lambda node: (_HEAD not in node["Resources"], node["NodeName"])):
        name, resources = node["NodeName"] or node["NodeManagerAddress"], node["Resources"]
        if any(name == other.name for other in ray_nodes):
            name = f"{name}-{node['NodeID'][:8]}"
        cpus, gpus = (int(resources.get(kind, 0)) for kind in ("CPU", "GPU"))
        ray_nodes.append(RayNode(name, node["NodeID"], node["NodeManagerAddress"], cpus, gpus))
    return ray_nodes


def session() -> Session:
    """The cluster that this process is connected to."""
    import ray

    folders = Path(ray.nodes()[0]["RayletSocketName"]).parts
    name = next(folder for folder in folders if folder.startswith("session_"))
    return Session(name, ray.get_runtime_context().gcs_address, socket.gethostname())


def living_actors() -> set[str]:
    """The names of our actors that have not died."""
    import ray

    actors = ray.util.list_named_actors(all_namespaces=True)
    return {actor["name"] for actor in actors if actor["namespace"] == NAMESPACE}


def current_node() -> str:
    """The id of the node that this process is on."""
    import ray

    return str(ray.get_runtime_context().get_node_id())


@cache
def home_node(programs: str) -> str:
    """The id of a node that sees the home: the head, which the cluster cannot lose, or else this one."""
    import ray

    head, this_node = nodes()[0].id, current_node()
    has_home = (
        head == this_node or ray.get(query_home(command_actor(programs, head), programs)) == actor_target.SEEN
    )
    return head if has_home else this_node


def query_home(actor: Any, programs: str) -> Any:
    """Calls `ActorTarget.home` of an actor; returns the reference of its result."""
    return actor.home.remote(home_id(home_of(programs)))


def install(actor: Any, programs: str, home: str) -> str:
    """Makes an actor install the programs unless it has a `home`; returns the problem, or empty."""
    import ray

    if home:
        return ""
    files = {str(file.relative_to(programs)): file.read_bytes() for file in Path(programs).rglob("*.py")}
    problem: str = ray.get(actor.install.remote(files, home_id(home_of(programs))))
    return f"{ray.get(actor.host.remote())} {problem}" if problem else ""


def supervising_actor(name: str, programs: str, node: str, home: str, guid: str) -> Any:
    """Starts the actor that supervises a run on a node, by its id: detached."""
    # it may exist: the process that started it may have died before calling it
    options = {"name": name, "lifetime": "detached", "get_if_exists": True}
    return _actor("supervisor.RunSupervisor", programs, programs, home, guid, node=node, options=options)


def node_actor(programs: str, guid: str, bundle: dict[str, float], scheduling: object) -> Any:
    """Starts an actor on a node of a run, with the CPUs and GPUs of its bundle."""
    resources = {"num_cpus": bundle.get("CPU", 0), "num_gpus": bundle.get("GPU", 0)}
    options = {**resources, "scheduling_strategy": scheduling}
    return _actor("node_actor.NodePrograms", programs, *_of_copy(programs, guid), options=options)


def files_actor(programs: str, node: str, guid: str) -> Any:
    """Starts an actor for the files of a run on a node, by its id."""
    return _actor("home_files.HomeFiles", programs, *_of_copy(programs, guid), node=node)


def _of_copy(programs: str, guid: str) -> tuple[str, str, str]:
    """The arguments of `HomeFiles` on nodes."""
    home = home_of(programs)
    return str(home), guid, home_id(home)


def command_actor(programs: str, node: str) -> Any:
    """Starts an actor for a command on a node, by its id; it takes no CPUs."""
    return _actor("node_command.CommandProgram", programs, node=node)


def home_of(programs: str) -> Path:
    """The home that programs were installed in."""
    return Path(programs).parents[1]


def call(actor: Any, method: str, *arguments: object) -> Any:
    """Calls a method of the object of an actor; returns the reference of its result.

    The result is a NotADirectoryError if the actor's node has no programs.
    """
    return actor.call.remote(method, *arguments)


def named_actor(name: str) -> Any:
    """The supervising actor of that name; ValueError if it is not there."""
    import ray

    return ray.get_actor(name, namespace=NAMESPACE)


def retire(name: str) -> None:
    """Ends the supervising actor of that name, unless its run has begun."""
    with contextlib.suppress(ValueError):  # it is gone
        call(named_actor(name), "retire")


def end(name: str) -> None:
    """Ends the supervising actor of that name, if it is there."""
    import ray

    with contextlib.suppress(ValueError):
        ray.kill(named_actor(name))


def largest(candidates: Sequence[RayNode], count: int) -> list[RayNode]:
    """The nodes with the most GPUs and CPUs, at most `count`."""
    with_cpus = [node for node in candidates if node.cpus]
    return sorted(with_cpus, key=lambda node: (-node.gpus, -node.cpus))[:count]


def _actor(
    target: str,
    programs: str,
    *arguments: object,
    node: str = "",
    options: Mapping[str, object] = MappingProxyType({}),
) -> Any:
    """Starts an actor, on a node if that is given by its id."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    ray.cloudpickle.register_pickle_by_value(actor_target)
    name = target.rpartition(".")[2]  # Ray names the process after it
    if node:
        where = NodeAffinitySchedulingStrategy(node, soft=False)
        options = {**options, "scheduling_strategy": where, "num_cpus": 0}
    actor = ray.remote(type(name, (actor_target.ActorTarget,), {}))
    path = f"{__package__}.{target}"
    return actor.options(max_concurrency=_THREADS, **options).remote(path, programs, *arguments)
