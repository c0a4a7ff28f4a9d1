"""JSON conventions of `az`: sorted keys, nulls, `resourceGroup` beside ARM ids, time formats."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from datetime import datetime, timezone
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from batchai_magics.models.wire_times import duration

if TYPE_CHECKING:
    from pydantic import BaseModel


AzObject: TypeAlias = dict[str, Any]
"""A JSON object as `az` prints it: camelCase keys, null for a missing value, times as UTC text."""

_GROUP = re.compile(r"/subscriptions/[^/]+/resourceGroups/([^/]+)/", re.IGNORECASE)
DURATION_FIELD = "maxWallClockTime"  # the only duration field
_JSON_SCALARS = {str, int, float, bool, type(None)}


def to_az_json(value: Any) -> Any:
    """JSON-ready data with sorted keys, without secrets, with the resource group beside every ARM id."""
    if type(value) in _JSON_SCALARS:  # fast path for most values of a long list
        return value
    if isinstance(value, Mapping):
        return _tidy_object(value)
    if isinstance(value, (list, tuple)):
        return [to_az_json(item) for item in value]
    if isinstance(value, datetime):
        return format_time(value)
    if isinstance(value, enum.Enum):
        return value.value
    return str(value) if isinstance(value, Path) else _of_model(value)


def model_fields(model: BaseModel) -> dict[str, Any]:
    """The fields of a model by their JSON names, and native options of a job."""
    values = vars(model)
    fields = {alias: values[name] for alias, name in _aliases(type(model))}
    return {**fields, **(model.model_extra or {})}


def format_time(time: datetime) -> str:
    """A time in UTC with milliseconds."""
    utc = time if time.tzinfo is timezone.utc else time.astimezone(timezone.utc)
    return utc.replace(microsecond=utc.microsecond // 1000 * 1000).isoformat()


def resource_group_of(id: str) -> str | None:
    """The resource group in an ARM id; None for any other text."""
    match = _GROUP.match(id)
    return match[1] if match else None


def format_duration(text: str) -> str:
    """A duration as `az` prints it: `7 days, 0:00:00`."""
    return str(duration(text))


@lru_cache(maxsize=256)
def _aliases(model: type[BaseModel]) -> tuple[tuple[str, str], ...]:
    return tuple((field.alias or name, name) for name, field in model.model_fields.items())


def _tidy_object(value: Mapping[str, Any]) -> dict[str, Any]:
    data = {key: to_az_json(item) for key, item in value.items()}
    group = resource_group_of(str(data["id"])) if "id" in data else None
    if group:
        data["resourceGroup"] = group
    if data.get(DURATION_FIELD):
        data[DURATION_FIELD] = format_duration(data[DURATION_FIELD])
    return dict(sorted(data.items()))


def _of_model(value: Any) -> Any:
    """A model's fields, None for a secret, any other value unchanged."""
    from pydantic import BaseModel, SecretStr  # slow import; a list of jobs contains neither

    if isinstance(value, BaseModel):
        return _tidy_object(model_fields(value))
    return None if isinstance(value, SecretStr) else value
