"""What older files and clients call the fields of today: one table, and what may stand around the fields.

Keys are taken in any letter case anyway, as the old clients took them; OLD lists what had another name or is
no longer there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Old:
    """What became of an old key: `to` is its key now (empty: it is dropped), `convert` makes the value."""

    to: str = ""
    convert: Callable[[Any], Any] = str


def _priority(value: Any) -> str:
    """The 2017 preview's number from -1000 to 1000 as low, normal or high."""
    if isinstance(value, bool) or not isinstance(value, int) or not -1000 <= value <= 1000:
        raise ValueError(
            "expected a whole number from -1000 to 1000, or schedulingPriority: low, normal or high"
        )
    return "low" if value < 0 else "high" if value > 0 else "normal"


# What may stand beside `properties`: in an ARM template, in a 2017 file, in what the service shows.
ENVELOPE = (
    "apiVersion",
    "comments",
    "dependsOn",
    "etag",
    "id",
    "location",
    "name",
    "resourceGroup",
    "tags",
    "type",
)

_SHOWN_BY_THE_SERVICE = dict.fromkeys(
    ("creationtime", "errors", "provisioningstate", "provisioningstatetransitiontime"), Old()
)

# Model → lower-case old key → what became of it. Keys that only differ in letter case need no entry.
OLD: dict[str, dict[str, Old]] = {
    "JobSpec": {
        "priority": Old("schedulingPriority", _priority),
        "experimentname": Old(),
        "tooltype": Old(),
        "joboutputdirectorypathsegment": Old(),
        "executionstate": Old(),
        "executionstatetransitiontime": Old(),
        "executioninfo": Old(),
        "batchairanks": Old(),
        **_SHOWN_BY_THE_SERVICE,
    },
    "ClusterSpec": {
        "allocationstate": Old(),
        "allocationstatetransitiontime": Old(),
        "currentnodecount": Old(),
        "nodestatecounts": Old(),
        **_SHOWN_BY_THE_SERVICE,
    },
    "WorkspaceSpec": {"tags": Old()},
    "OutputDirectory": {"type": Old()},
    "ResourceRef": {"resourcegroup": Old()},
}
