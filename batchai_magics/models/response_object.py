"""Tolerant access to JSON objects in service responses, and the fields that all resources share."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from batchai_magics.errors import ServiceError, SpecError, join_path
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.wire_times import parse_time, wire_time

if TYPE_CHECKING:
    from batchai_magics.models.wire_model import WireModel


WireObject: TypeAlias = dict[str, Any]
"""A JSON object of the service's API: camelCase keys, times as UTC text, no nulls, and no secrets."""

Choice = TypeVar("Choice", bound=enum.Enum)
Model = TypeVar("Model", bound="WireModel")


@dataclass(frozen=True)
class ResponseObject:
    """A JSON object of a response.

    Every method raises ServiceError (code InvalidAnswer) with the path of a value that cannot be read; so do
    those without a default for a missing one.
    """

    fields: Mapping[str, Any]  # the object's fields, without nulls
    path: str  # its path in the response: `properties.executionInfo`

    @classmethod
    def of(cls, data: object, path: str) -> ResponseObject:
        """Wraps a JSON object; raises ServiceError if it is not an object."""
        if not isinstance(data, Mapping):
            raise unreadable(path, f"expected an object, got {type(data).__name__}")
        return cls({str(key): value for key, value in data.items() if value is not None}, path)

    def has(self, key: str) -> bool:
        """Whether there is a value at `key`."""
        return self._find(key) is not None

    def text(self, key: str, default: str | None = None) -> str:
        """The text at `key`; required without a default."""
        return str(self._value(key, default))

    def number(self, key: str, default: int | None = None) -> int:
        """The integer at `key`; required without a default."""
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise unreadable(join_path(self.path, key), f"{value!r} is not a whole number")
        return value

    def optional_number(self, key: str) -> int | None:
        """The integer at `key`, if any."""
        return self.number(key) if self.has(key) else None

    def time(self, key: str, default: datetime | None = None) -> datetime:
        """The time at `key` in UTC; required without a default."""
        if default is not None and not self.has(key):
            return default
        try:
            return parse_time(self.text(key))
        except ValueError as error:
            raise unreadable(join_path(self.path, key), str(error)) from None

    def optional_time(self, key: str) -> datetime | None:
        """The time at `key` in UTC, if any."""
        return self.time(key) if self.has(key) else None

    def choice(self, key: str, kind: type[Choice], default: Choice | None = None) -> Choice:
        """The member of `kind` with the value at `key`, in any case; required without a default."""
        if default is not None and not self.has(key):
            return default
        text = self.text(key)
        member = next((item for item in kind if str(item.value).lower() == text.lower()), None)
        if member is None:
            raise unreadable(join_path(self.path, key), f"{text!r} is no {kind.__name__}")
        return member

    def id(self, key: str = "id") -> ResourceId:
        """The resource id at `key`."""
        try:
            return ResourceId.parse(self.text(key))
        except SpecError as error:
            raise unreadable(join_path(self.path, key), error.problems[0].message) from None

    def object(self, key: str) -> ResponseObject:
        """The object at `key`, by default an empty one."""
        value = self._find(key)
        return ResponseObject.of({} if value is None else value, join_path(self.path, key))

    def items(self, key: str) -> Sequence[Any]:
        """The list at `key`, by default an empty one."""
        value = self._find(key)
        if value is not None and not isinstance(value, (list, tuple)):
            raise unreadable(join_path(self.path, key), f"expected a list, got {type(value).__name__}")
        return value or ()

    def model(self, kind: type[Model]) -> Model:
        """The object as a model, ignoring unknown fields."""
        from pydantic import ValidationError

        from batchai_magics.models.documents.spec_problems import problems_of

        try:
            return kind.from_service(self.fields)
        except ValidationError as error:
            problem = problems_of(error, kind, self.path)[0]
            raise unreadable(problem.path, problem.message) from None

    def _value(self, key: str, default: Any) -> Any:
        value = self._find(key)
        if value is None and default is None:
            raise unreadable(join_path(self.path, key), "it is missing")
        return default if value is None else value

    def _find(self, key: str) -> Any:
        if key in self.fields:
            return self.fields[key]
        return next((value for name, value in self.fields.items() if name.lower() == key.lower()), None)


def unreadable(path: str, message: str) -> ServiceError:
    """The ServiceError (code InvalidAnswer) for a value at `path` that cannot be read."""
    return ServiceError(f"the service's answer cannot be read: {path}: {message}", code="InvalidAnswer")


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
