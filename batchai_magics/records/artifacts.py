"""The artifacts of a run: saved files with their steps, sizes and digests, as ranks record them.

Each rank appends lines to its own file. A saved file is first copied to a part beside it; then a line that
names the part describes the artifact, the part is renamed to its final path, and a second line describes the
artifact again. A line with a part counts once the part no longer exists: whenever the process is killed,
either the old file or the new one exists and is listed. A line that is not JSON was cut off by a kill.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from batchai_magics.records.record_files import PART
from batchai_magics.untrusted_files import parse_json

FOLDER = "artifacts/"  # of the record files
_LAST_S = 1e11  # the latest time that is read, in the year 5138
_TYPES: Mapping[str, Any] = {  # of a record
    "path": str,
    "name": str,
    "step": int | None,
    "size": int,
    "sha256": str,
    "time": float | int,
    "rank": int | None,
    "attempt": int,
}


@dataclass(frozen=True)
class Artifact:
    """A file that a run saved."""

    name: str  # the name that it was saved under
    path: str  # its path in `directory_id`
    size_bytes: int
    step: int | None = None  # the step that it belongs to, if any
    sha256: str = ""  # the SHA-256 of its bytes; empty for a file of `./outputs`
    saved: datetime | None = None  # when it was saved, in UTC
    rank: int | None = None  # the rank that saved it; None where it is unknown
    attempt: int = 1  # the attempt that saved it
    directory_id: str = "artifacts"  # the output directory that has it, for `job.download`


def artifacts_in(files: Mapping[str, bytes]) -> list[Artifact]:
    """The artifacts in the record files of a run, in the order in which they were saved.

    Only the names of parts matter, not their contents.
    """
    artifacts: dict[str, Artifact] = {}
    lines = [line for name, data in files.items() if not name.endswith(PART) for line in _lines(data)]
    pending = {name.rpartition("/")[2] for name in files if name.endswith(PART)}
    pending |= {line["part"] for line in lines if line.get("discarded")}
    complete = [line for line in lines if line.keys() >= _TYPES.keys() and line.get("part") not in pending]
    for line in sorted(complete, key=lambda line: float(line["time"])):
        artifacts.pop(line["path"], None)
        artifacts[line["path"]] = Artifact(
            name=line["name"],
            path=line["path"],
            size_bytes=line["size"],
            step=line["step"],
            sha256=line["sha256"],
            saved=datetime.fromtimestamp(line["time"], timezone.utc),
            rank=line["rank"],
            attempt=line["attempt"],
        )
    return list(artifacts.values())


def _lines(data: bytes) -> Iterator[dict[str, Any]]:
    """The records in the complete lines of a record file; other lines were cut off or are foreign.

    The fields of a record that exist have the types of `_TYPES`.
    """
    for text in data.split(b"\n")[:-1]:
        with contextlib.suppress(ValueError):
            line = parse_json(text)
            if not isinstance(line, dict):
                continue
            is_typed = all(isinstance(line[name], kind) for name, kind in _TYPES.items() if name in line)
            if is_typed and isinstance(line.get("part", ""), str) and 0 <= line.get("time", 0) < _LAST_S:
                yield line
