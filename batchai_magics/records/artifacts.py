"""What a run saved under a name: files with their steps, sizes and digests, as ranks record them.

Each rank appends lines to a file of its own. A line follows the complete file that it describes; before a
file is replaced, a line withdraws it. What is not a line of JSON was cut off by a kill.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

FOLDER = "artifacts/"  # of the record files


@dataclass(frozen=True)
class Artifact:
    """A file that a run saved.

    Attributes:
        name: The name that it was saved under.
        path: Its path in `directory_id`.
        size_bytes: Its size.
        step: The step that it belongs to, if that was given.
        sha256: The SHA-256 of its bytes; empty for a file of `./outputs`, which nobody saved.
        saved: When it was saved, in UTC.
        rank: The rank that saved it; None where it is unknown.
        attempt: The attempt that saved it.
        directory_id: The output directory that has it, for `job.download`.
    """

    name: str
    path: str
    size_bytes: int
    step: int | None = None
    sha256: str = ""
    saved: datetime | None = None
    rank: int | None = None
    attempt: int = 1
    directory_id: str = "artifacts"


def artifacts_in(files: Mapping[str, bytes]) -> list[Artifact]:
    """The artifacts in the record files of a run, in the order in which they were saved."""
    found: dict[str, Artifact] = {}
    lines = [line for data in files.values() for line in _lines(data)]
    for line in sorted(lines, key=lambda line: float(line["time"])):
        found.pop(line["path"], None)
        if not line.get("replaced"):
            found[line["path"]] = _artifact(line)
    return list(found.values())


def _lines(data: bytes) -> Iterator[dict[str, Any]]:
    """The complete lines of a record file."""
    for line in data.split(b"\n")[:-1]:
        try:
            value = json.loads(line)
        except ValueError:  # empty, or cut off
            continue
        if isinstance(value, dict) and {"path", "time"} <= value.keys():
            yield value


def _artifact(line: Mapping[str, Any]) -> Artifact:
    return Artifact(
        name=line["name"],
        path=line["path"],
        size_bytes=line["size"],
        step=line["step"],
        sha256=line["sha256"],
        saved=datetime.fromtimestamp(line["time"], timezone.utc),
        rank=line["rank"],
        attempt=line["attempt"],
    )
