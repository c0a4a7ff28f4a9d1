"""The Ray cluster that this process is connected to: its nodes, and our actors on it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

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

    found: list[RayNode] = []
    alive = [node for node in ray.nodes() if node["Alive"]]
    for node in sorted(alive, key=lambda node: (_HEAD not in node["Resources"], node["NodeName"])):
        name, resources = node["NodeName"] or node["NodeManagerAddress"], node["Resources"]
        if any(name == other.name for other in found):
            name = f"{name}-{node['NodeID'][:8]}"
        cpus, gpus = (int(resources.get(kind, 0)) for kind in ("CPU", "GPU"))
        found.append(RayNode(name, node["NodeID"], node["NodeManagerAddress"], cpus, gpus))
    return found


def session() -> Session:
    """The cluster that this process is connected to."""
    import ray

    folders = Path(ray.nodes()[0]["RayletSocketName"]).parts
    name = next(folder for folder in folders if folder.startswith("session_"))
    return Session(name, ray.get_runtime_context().gcs_address)


def living_actors() -> set[str]:
    """The names of our actors that have not died."""
    import ray

    actors = ray.util.list_named_actors(all_namespaces=True)
    return {actor["name"] for actor in actors if actor["namespace"] == NAMESPACE}


def supervising_actor(name: str, programs: str, home: str, guid: str) -> Any:
    """Starts the actor that supervises a run: detached, on the head, which the cluster cannot lose."""
    actor = _remote_class("batchai_magics.backends.ray.node.supervisor", "RunSupervisor")
    options = {"name": name, "lifetime": "detached", "resources": {_HEAD: 0.001}, "num_cpus": 0}
    options["get_if_exists"] = True  # whoever started it may have died before it was called
    return actor.options(max_concurrency=_THREADS, **options).remote(programs, programs, home, guid)


def node_actor(programs: str, bundle: dict[str, float], scheduling: object) -> Any:
    """Starts an actor on a node, with the CPUs and GPUs of its bundle."""
    actor = _remote_class("batchai_magics.backends.ray.node.node_actor", "NodePrograms")
    resources = {"num_cpus": bundle.get("CPU", 0), "num_gpus": bundle.get("GPU", 0)}
    return actor.options(max_concurrency=_THREADS, scheduling_strategy=scheduling, **resources).remote(
        programs
    )


def command_actor(programs: str, node: str) -> Any:
    """Starts an actor on a node, by its id, beside what runs there."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    actor = _remote_class("batchai_magics.backends.ray.node.node_command", "CommandProgram")
    scheduling = NodeAffinitySchedulingStrategy(node, soft=False)
    return actor.options(max_concurrency=_THREADS, scheduling_strategy=scheduling, num_cpus=0).remote(
        programs
    )


def call(actor: Any, method: str, *arguments: object) -> Any:
    """Calls a method of what an actor runs; returns the reference of its result.

    That is NotADirectoryError if the actor's node does not see the programs.
    """
    return actor.call.remote(method, *arguments)


def running(name: str) -> Any:
    """The supervising actor of that name; ValueError if it is not there."""
    import ray

    return ray.get_actor(name, namespace=NAMESPACE)


def end(name: str) -> None:
    """Ends the supervising actor of that name, if it is there."""
    import ray

    with contextlib.suppress(ValueError):
        ray.kill(running(name))


def largest(found: Sequence[RayNode], count: int) -> list[RayNode]:
    """The nodes with the most GPUs and CPUs, at most `count`."""
    return sorted((node for node in found if node.cpus), key=lambda node: (-node.gpus, -node.cpus))[:count]


def _remote_class(module: str, name: str) -> Any:
    """An actor class that Ray sends as code: on its node, it imports the programs of the home."""
    import ray

    class ActorTarget:
        def __init__(self, programs: str, *arguments: object) -> None:
            import importlib
            import os
            import sys

            self._target: Any = None
            self._programs = programs
            if os.path.isdir(programs):  # noqa: PTH112 it is sent without this module's imports
                sys.path.insert(0, programs)
                self._target = getattr(importlib.import_module(module), name)(*arguments)

        def blind_at(self) -> str:
            import socket

            return "" if self._target else socket.gethostname()

        def call(self, method: str, *arguments: object) -> object:
            if not self._target:
                raise NotADirectoryError(f"{self.blind_at()} does not see {self._programs}")
            return getattr(self._target, method)(*arguments)

    ActorTarget.__name__ = ActorTarget.__qualname__ = name  # Ray names the process after it
    return ray.remote(ActorTarget)
