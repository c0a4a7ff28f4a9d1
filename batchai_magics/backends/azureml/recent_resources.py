"""Jobs and clusters as they were read within the last seconds, for those who watch them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from batchai_magics.backends.azureml.clusters import Clusters
from batchai_magics.backends.azureml.jobs import Jobs
from batchai_magics.errors import NotFoundError
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.resources import Cluster, JobResource

if TYPE_CHECKING:
    from batchai_magics.models.resources import Resource

_JOB_S, _ENDED_JOB_S, _CLUSTER_S = 4.0, 60.0, 10.0  # how long each may be shown
_MAX_RESOURCES = 4096


class RecentResources:
    """The states of watched jobs and clusters: each is asked for once in some seconds, whoever watches it."""

    def __init__(
        self, jobs: Jobs, clusters: Clusters, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._jobs, self._clusters, self._clock = jobs, clusters, clock
        self._lock = threading.Lock()
        self._read: dict[str, tuple[float, Resource]] = {}  # id.key → until when, and what

    def find(self, ids: Collection[ResourceId]) -> dict[str, Resource]:
        """The jobs and clusters with these ids, by their keys; missing ones are left out."""
        found = {id.key: resource for id in ids if (resource := self._find(id)) is not None}
        with self._lock:
            while len(self._read) > _MAX_RESOURCES:
                self._read.pop(next(iter(self._read)))
        return found

    def cluster(self, id: ResourceId) -> Cluster | None:
        """A cluster; None if it does not exist."""
        cluster = self._find(id)
        return cluster if isinstance(cluster, Cluster) else None

    def forget(self, id: ResourceId) -> None:
        """Forgets a resource that this process has changed."""
        with self._lock:
            self._read.pop(id.key, None)

    def _find(self, id: ResourceId) -> Resource | None:
        now = self._clock()
        until, known = self._read.get(id.key, (0.0, None))
        if known is not None and now < until:
            return known
        try:
            resource = self._jobs.show(id) if id.kind is Kind.JOB else self._clusters.show(id)
        except NotFoundError:
            self.forget(id)
            return None
        with self._lock:
            self._read[id.key] = now + _life_s(resource), resource
        return resource


def _life_s(resource: Resource) -> float:
    if isinstance(resource, JobResource):
        return _ENDED_JOB_S if resource.state.is_final else _JOB_S
    return _CLUSTER_S
