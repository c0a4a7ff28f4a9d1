"""Fields that all resources share: id, name, type, creation time, provisioning state."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.response_object import ResponseObject, WireObject
from batchai_magics.models.wire_times import wire_time


class ProvisioningState(enum.Enum):
    """Whether the resource exists, or is being created, changed or deleted."""

    CREATING = "creating"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    UPDATING = "updating"  # a file server only
    DELETING = "deleting"


@dataclass(frozen=True)
class Provisioning:
    """A resource's creation time, its provisioning state, and the time of its last change, in UTC."""

    created: datetime
    changed: datetime
    state: ProvisioningState = ProvisioningState.SUCCEEDED

    def to_wire(self) -> WireObject:
        """The wire fields `creationTime`, `provisioningState` and `provisioningStateTransitionTime`."""
        return {
            "creationTime": wire_time(self.created),
            "provisioningState": self.state.value,
            "provisioningStateTransitionTime": wire_time(self.changed),
        }

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> Provisioning:
        """Reads the three fields among a resource's `properties`.

        Raises:
            ServiceError: The creation time is missing, or a value is invalid.
        """
        properties = ResponseObject.of(data, "properties")
        created = properties.time("creationTime")
        return cls(
            created=created,
            changed=properties.time("provisioningStateTransitionTime", created),
            state=properties.choice("provisioningState", ProvisioningState, ProvisioningState.SUCCEEDED),
        )


def head(id: ResourceId) -> WireObject:
    """The first wire fields of every resource: `id`, `name`, `type`."""
    return {"id": str(id), "name": id.name, "type": id.kind.wire_type}
