"""Clusters (AmlCompute): their nodes come, prepare, run jobs, idle, are preempted and leave."""

from __future__ import annotations

import itertools
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.azureml.http_messages import RefusedError, Request, Response, Routes, json_response
from tests.azureml.workspace import (
    LOCATION,
    PLACE,
    ROOT,
    Workspace,
    find_size,
    now,
    quota_of,
    system_data,
)

NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{2,31}")
STATES = ("idle", "running", "preparing", "unusable", "leaving", "preempted")


@dataclass
class Node:
    """A machine of a cluster, or of one serverless job."""

    number: int
    ready_at: float
    run_id: str = ""
    idle_since: float = 0.0
    is_preempted: bool = False

    @property
    def id(self) -> str:
        return f"tvmps_{self.number:064x}_d"

    @property
    def address(self) -> str:
        return f"10.0.0.{3 + self.number}"

    @property
    def state(self) -> str:
        if self.is_preempted:
            return "preempted"
        if time.monotonic() < self.ready_at:
            return "preparing"
        return "running" if self.run_id else "idle"

    def body(self) -> dict[str, Any]:
        places = {
            "privateIpAddress": self.address,
            "publicIpAddress": "192.0.2.1",
            "port": 50000 + self.number,
        }
        return {"nodeId": self.id, **places, "nodeState": self.state, "runId": self.run_id or None}


class Cluster:
    """The nodes of a cluster; jobs wait for them in the order in which they came."""

    def __init__(
        self, name: str, properties: dict[str, Any], workspace: Workspace, preparation_s: float
    ) -> None:
        self.name, self.properties = name, properties
        self.nodes: list[Node] = []
        self.errors: list[dict[str, Any]] = []
        self.changed = threading.Condition()
        self._waiting: list[str] = []
        self._numbers = itertools.count(1)
        self._workspace, self._preparation_s = workspace, preparation_s
        self._created = self.modified = now()
        self._allocation = ("Steady", self._created)  # state, and since when

    @property
    def _own(self) -> dict[str, Any]:
        return self.properties["properties"]

    @property
    def is_spot(self) -> bool:
        """Whether its nodes may be preempted."""
        return str(self._own.get("vmPriority")).lower() == "lowpriority"

    def settle(self) -> None:
        """Adds nodes up to the minimum; those that have idled too long leave, down to it."""
        with self.changed:
            scale, now = self._own["scaleSettings"], time.monotonic()
            idle_s = seconds(scale.get("nodeIdleTimeBeforeScaleDown") or "PT2M")
            for node in list(self.nodes):
                has_idled = node.state == "idle" and now - max(node.idle_since, node.ready_at) > idle_s
                is_extra = len(self.nodes) > scale.get("maxNodeCount", 1) and node.state == "idle"
                if is_extra or (has_idled and len(self.nodes) > (scale.get("minNodeCount") or 0)):
                    self._remove(node)
            self._grow((scale.get("minNodeCount") or 0) - len(self.nodes))

    def acquire(self, job: str, count: int, is_wanted: Callable[[], bool]) -> list[Node]:
        """Waits until a job is the first in the queue and has its nodes; empty if it is no longer wanted."""
        with self.changed:
            self._waiting.append(job)
            try:
                while is_wanted():
                    self.settle()
                    free = [node for node in self.nodes if node.state == "idle"]
                    is_next = self._waiting[0] == job
                    if is_next and len(free) >= count:
                        for node in free[:count]:
                            node.run_id = job
                        return free[:count]
                    if is_next:
                        self._grow_for(count)
                    self.changed.wait(0.02)
                return []
            finally:
                self._waiting.remove(job)
                self.changed.notify_all()

    def release(self, nodes: list[Node]) -> None:
        """The nodes of a job idle again; preempted ones are gone."""
        with self.changed:
            for node in nodes:
                node.run_id, node.idle_since = "", time.monotonic()
                if node.is_preempted and node in self.nodes:
                    self._remove(node)
            self.changed.notify_all()

    def body(self) -> dict[str, Any]:
        """The resource."""
        self.settle()
        with self.changed:
            counts = Counter(node.state for node in self.nodes)
            is_steady = not counts["preparing"]
            known = {
                "currentNodeCount": len(self.nodes),
                "targetNodeCount": len(self.nodes),
                "nodeStateCounts": {f"{state}NodeCount": counts[state] for state in STATES},
                **self._allocation_body("Steady" if is_steady else "Resizing"),
                "errors": self.errors or None,
            }
            properties = {**self.properties, "properties": {**self._own, **known}}
        properties |= {
            "provisioningState": "Succeeded",
            "computeLocation": LOCATION,
            "isAttachedCompute": False,
        }
        base = {"id": f"{ROOT}/computes/{self.name}", "name": self.name, "location": LOCATION}
        kind = "Microsoft.MachineLearningServices/workspaces/computes"
        made = system_data(self._created, self.modified)
        return {**base, "type": kind, "properties": properties, "systemData": made}

    def _allocation_body(self, state: str) -> dict[str, str]:
        if state != self._allocation[0]:
            self._allocation = (state, now())
        return {"allocationState": state, "allocationStateTransitionTime": self._allocation[1]}

    def _grow_for(self, count: int) -> None:
        busy = sum(node.state in ("running", "preempted") for node in self.nodes)
        self._grow(min(self._own["scaleSettings"]["maxNodeCount"], busy + count) - len(self.nodes))

    def _grow(self, count: int) -> None:
        size = self._own["vmSize"]
        for _ in range(count):
            if not self._workspace.take_cores(size, 1, is_spot=self.is_spot):
                quota, _ = quota_of(size, is_spot=self.is_spot)
                limit = self._workspace.cores[quota]
                message = f"Operation results in exceeding quota limits of {quota}. Maximum allowed: {limit}."
                self.errors = [{"error": {"code": "ClusterCoreQuotaReached", "message": message}}]
                return
            self.errors = []
            self.nodes.append(Node(next(self._numbers), time.monotonic() + self._preparation_s))

    def _remove(self, node: Node) -> None:
        self.nodes.remove(node)
        self._workspace.return_cores(self._own["vmSize"], 1, is_spot=self.is_spot)

    def remove_all(self) -> None:
        """The cluster is deleted."""
        with self.changed:
            for node in list(self.nodes):
                self._remove(node)


class Computes:
    """The clusters of the workspace. `preparation_s` is how long a new node prepares.

    Azure has no Retry-After at the operations of clusters; a client that polls seldom can be given one here.
    """

    def __init__(self, workspace: Workspace) -> None:
        self.preparation_s = 0.05
        self.retry_after = ""
        self.clusters: dict[str, Cluster] = {}
        self._workspace = workspace
        self._operations = itertools.count(1)
        self._polls: Counter[str] = Counter()
        self._lock = threading.RLock()
        self._serverless_numbers = itertools.count(100)
        self.routes = Routes()
        for method, path, handler in (
            ("GET", f"{ROOT}/computes", self._list),
            ("GET", f"{ROOT}/computes/{{name}}", self._show),
            ("PUT", f"{ROOT}/computes/{{name}}", self._put),
            ("PATCH", f"{ROOT}/computes/{{name}}", self._patch),
            ("DELETE", f"{ROOT}/computes/{{name}}", self._delete),
            ("POST", f"{ROOT}/computes/{{name}}/listNodes", self._nodes),
            ("GET", f"{PLACE}/computeOperationsStatus/{{operation}}", self._operation),
        ):
            self.routes.add(method, path, handler)

    def find(self, name: str) -> Cluster:
        """The cluster of a name or an id."""
        with self._lock:
            cluster = self.clusters.get(name.rpartition("/")[2].lower())
        if cluster is None:
            message = f"Compute with name {name} is not found in workspace"
            raise RefusedError(404, "ResourceNotFound", message)
        return cluster

    def serverless(self, count: int, job: str) -> list[Node]:
        """Nodes for one job alone."""
        ready = time.monotonic() + self.preparation_s
        return [Node(next(self._serverless_numbers), ready, job) for _ in range(count)]

    def add(
        self,
        name: str,
        *,
        size: str = "Standard_DS3_v2",
        minimum: int = 0,
        maximum: int = 4,
        idle: str = "PT2M",
    ) -> Cluster:
        """Makes a cluster without a request."""
        scale = {"minNodeCount": minimum, "maxNodeCount": maximum, "nodeIdleTimeBeforeScaleDown": idle}
        own = {"vmSize": size, "vmPriority": "Dedicated", "scaleSettings": scale, "osType": "Linux"}
        return self._made(name, {"computeType": "AmlCompute", "properties": own})

    def _made(self, name: str, properties: dict[str, Any]) -> Cluster:
        find_size(properties["properties"]["vmSize"])
        _check_scale(properties["properties"].get("scaleSettings") or {})
        cluster = Cluster(name, properties, self._workspace, self.preparation_s)
        with self._lock:
            self.clusters[name.lower()] = cluster
        cluster.settle()
        return cluster

    def _list(self, request: Request) -> Response:
        with self._lock:
            found = list(self.clusters.values())
        return json_response({"value": [cluster.body() for cluster in found]})

    def _show(self, request: Request, name: str) -> Response:
        return json_response(self.find(name).body())

    def _put(self, request: Request, name: str) -> Response:
        properties = request.json()["properties"]
        if properties.get("computeType") != "AmlCompute":
            raise RefusedError(400, "BadRequest", f"no {properties.get('computeType')} here")
        with self._lock:
            before = self.clusters.get(name.lower())
            if before:
                self._rescale(before, properties["properties"]["scaleSettings"])
                return self._pending(before, 200)
            if not NAME.fullmatch(name):
                message = f"The compute name {name} is not valid: 3 to 32 letters, digits and hyphens."
                raise RefusedError(400, "BadRequest", message)
            return self._pending(self._made(name, properties), 201)

    def _patch(self, request: Request, name: str) -> Response:
        cluster = self.find(name)
        self._rescale(cluster, request.json()["properties"]["properties"]["scaleSettings"])
        return self._pending(cluster, 200)

    def _rescale(self, cluster: Cluster, scale: dict[str, Any]) -> None:
        _check_scale({**cluster.properties["properties"]["scaleSettings"], **scale})
        cluster.modified = now()
        with cluster.changed:
            cluster.properties["properties"]["scaleSettings"].update(scale)
        cluster.settle()

    def _delete(self, request: Request, name: str) -> Response:
        cluster = self.find(name)
        with self._lock:
            del self.clusters[name.lower()]
        cluster.remove_all()
        return Response(202, headers=self._operation_headers())

    def _nodes(self, request: Request, name: str) -> Response:
        cluster = self.find(name)
        cluster.settle()
        with cluster.changed:
            return json_response({"nodes": [node.body() for node in cluster.nodes], "nextLink": None})

    def _pending(self, cluster: Cluster, status: int) -> Response:
        return json_response(cluster.body(), status, self._operation_headers())

    def _operation_headers(self) -> dict[str, str]:
        number = next(self._operations)
        url = f"https://management.azure.com{PLACE}/computeOperationsStatus/{number}?api-version=2025-12-01"
        return {"Azure-AsyncOperation": url, "Location": url, **self._poll_headers}

    def _operation(self, request: Request, operation: str) -> Response:
        self._polls[operation] += 1
        status = "Succeeded" if self._polls[operation] > 1 else "InProgress"
        body = {"id": request.path, "status": status, "percentComplete": 100.0}
        return json_response(body, headers=self._poll_headers)

    @property
    def _poll_headers(self) -> dict[str, str]:
        return {"Retry-After": self.retry_after} if self.retry_after else {}


def _check_scale(scale: dict[str, Any]) -> None:
    fewest, most = scale.get("minNodeCount") or 0, scale.get("maxNodeCount") or 0
    if most < 1 or fewest > most:
        message = f"The scale settings are not valid: minNodeCount {fewest}, maxNodeCount {most}."
        raise RefusedError(400, "BadRequest", message)


def seconds(text: str) -> float:
    """The seconds of a duration, such as PT2M or PT0.5S."""
    found = re.fullmatch(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:([\d.]+)S)?)?", text)
    if not found:
        raise RefusedError(400, "BadRequest", f"{text!r} is no duration")
    parts = zip(found.groups(), (86400, 3600, 60, 1), strict=True)
    return sum(float(number or 0) * unit for number, unit in parts)
