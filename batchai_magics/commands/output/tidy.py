"""What all values have in common as `az` prints them: sorted keys, nulls, `resourceGroup` beside ARM ids."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from datetime import datetime, timezone
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchai_magics.models.times import duration

if TYPE_CHECKING:
    from pydantic import BaseModel

_GROUP = re.compile(r"/subscriptions/[^/]+/resourceGroups/([^/]+)/", re.IGNORECASE)
SPAN = "maxWallClockTime"  # the one field that is a span of time
_AS_THEY_ARE = {str, int, float, bool, type(None)}


def tidy(value: Any) -> Any:
    """Sorted keys, plain values, no secret, and the resource group beside every ARM id."""
    if type(value) in _AS_THEY_ARE:  # most are, in the thousands of objects of a list
        return value
    if isinstance(value, Mapping):
        return _tidy_object(value)
    if isinstance(value, (list, tuple)):
        return [tidy(item) for item in value]
    if isinstance(value, datetime):
        return moment(value)
    if isinstance(value, enum.Enum):
        return value.value
    return str(value) if isinstance(value, Path) else _of_model(value)


def plain(model: BaseModel) -> dict[str, Any]:
    """The fields of a model by the names that they have in JSON."""
    values = vars(model)
    return {alias: values[name] for alias, name in _aliases(type(model))}


def moment(time: datetime) -> str:
    """A moment in UTC, to the millisecond."""
    utc = time if time.tzinfo is timezone.utc else time.astimezone(timezone.utc)
    return utc.replace(microsecond=utc.microsecond // 1000 * 1000).isoformat()


def group_of(id: str) -> str | None:
    """The resource group that an ARM id names; None for any other text."""
    match = _GROUP.match(id)
    return match[1] if match else None


def span(text: str) -> str:
    """A span of time as `az` writes it: `7 days, 0:00:00`."""
    return str(duration(text))


@lru_cache(maxsize=256)
def _aliases(model: type[BaseModel]) -> tuple[tuple[str, str], ...]:
    return tuple((field.alias or name, name) for name, field in model.model_fields.items())


def _tidy_object(value: Mapping[str, Any]) -> dict[str, Any]:
    data = {key: tidy(item) for key, item in value.items()}
    group = group_of(str(data["id"])) if "id" in data else None
    if group:
        data["resourceGroup"] = group
    if data.get(SPAN):
        data[SPAN] = span(data[SPAN])
    return dict(sorted(data.items()))


def _of_model(value: Any) -> Any:
    """A model's fields, nothing of a secret, and all else as it is."""
    from pydantic import BaseModel, SecretStr  # a list of jobs holds neither

    if isinstance(value, BaseModel):
        return _tidy_object(plain(value))
    return None if isinstance(value, SecretStr) else value
