"""Clusters: AmlCompute, and the serverless compute of jobs without one."""

from __future__ import annotations

from collections.abc import Sequence

from batchai_magics.backends.azureml.connection import Connection
from batchai_magics.backends.base.resource_requests import Listing, Patch, Spec
from batchai_magics.errors import CapabilityError
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.resources import Node, Resource

SERVERLESS = ("serverless", "default")  # clusters of these names are no AmlCompute


class Clusters:
    """The clusters of a workspace."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def create(self, id: ResourceId, spec: Spec) -> Resource:
        """Creates an AmlCompute, or returns an identical one."""
        raise _missing()

    def show(self, id: ResourceId) -> Resource:
        """The current cluster."""
        raise _missing()

    def list(self, workspace: ResourceId) -> Listing:
        """The clusters of a workspace."""
        raise _missing()

    def update(self, id: ResourceId, patch: Patch) -> Resource:
        """Changes the scale of a cluster."""
        raise _missing()

    def delete(self, id: ResourceId) -> None:
        """Deletes a cluster."""
        raise _missing()

    def nodes(self, id: ResourceId) -> Sequence[Node]:
        """The nodes of a cluster."""
        raise _missing()


def _missing() -> CapabilityError:
    return CapabilityError("clusters are not supported by the azureml backend yet", code="NotSupported")
