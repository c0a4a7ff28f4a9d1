"""What backends are made from: the plain answers, and the one place where descriptions are refused."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from batchai_magics.backends.base.capabilities import Capabilities, refuse_beyond
from batchai_magics.backends.base.facets import NodeCommands, Preemption, SetupLogs, Usages
from batchai_magics.backends.base.looks import Look, plain_look, plain_tail
from batchai_magics.backends.base.storage import Accounts, Groups, Storage
from batchai_magics.backends.base.values import Chunk, Spec
from batchai_magics.models.cluster import ClusterPatch
from batchai_magics.models.ids import ResourceId
from batchai_magics.models.resources import Resource

if TYPE_CHECKING:
    from batchai_magics.backends.base.protocol import Backend


class PlainAnswers:
    """What a backend has unless it has better: no facet, and look and tail made from its other verbs."""

    storage: Storage | None = None
    containers: Storage | None = None
    accounts: Accounts | None = None
    groups: Groups | None = None
    node_commands: NodeCommands | None = None
    preemption: Preemption | None = None
    setup_logs: SetupLogs | None = None
    usages: Usages | None = None

    def look(
        self: Backend, ids: Collection[ResourceId], *, since: Look | None = None, wait_s: float = 0.0
    ) -> Look:
        """Jobs and clusters as they stand; one question for each, or for all of one parent."""
        return plain_look(self, ids)

    def tail(
        self: Backend,
        job: ResourceId,
        positions: Mapping[str, int],
        limit: int = 1 << 20,
        *,
        wait_s: float = 0.0,
    ) -> Mapping[str, Chunk]:
        """The new bytes of all of a job's logs; one question to list them and one for each."""
        return plain_tail(self, job, positions, limit)

    def close(self) -> None:
        """Lets go of what is held open: nothing."""


class BackendBase(PlainAnswers, ABC):
    """What our backends begin with: nothing that they cannot do reaches their own `_create` or `_update`."""

    capabilities: Capabilities

    def create(self, id: ResourceId, spec: Spec) -> Resource:
        """Makes a resource; CapabilityError for what this backend cannot do, before anything is sent."""
        refuse_beyond(self.capabilities, spec)
        return self._create(id, spec)

    def update(self, id: ResourceId, patch: ClusterPatch) -> Resource:
        """Changes a cluster's scale; CapabilityError as for `create`."""
        refuse_beyond(self.capabilities, patch)
        return self._update(id, patch)

    @abstractmethod
    def _create(self, id: ResourceId, spec: Spec) -> Resource:
        """Makes a resource that this backend can make."""

    @abstractmethod
    def _update(self, id: ResourceId, patch: ClusterPatch) -> Resource:
        """Changes a cluster in a way that this backend can."""
