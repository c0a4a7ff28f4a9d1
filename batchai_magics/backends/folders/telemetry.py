"""Samples of what a job's processes use, read back from its folder; a line that is torn is passed over."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import IO, Any

from batchai_magics.models.telemetry import Sample, TelemetryRecord

VERSION = 1
NEAR_BYTES = 1 << 14  # so little is read, not searched


def read(folder: Path, after: float) -> TelemetryRecord:
    """All samples that were taken later than `after`, in seconds since 1970."""
    nodes: dict[int, str] = {}
    notes: list[str] = []
    samples: list[Sample] = []
    for file in sorted(folder.glob("*.jsonl")):
        head, found = _of_file(file, after)
        nodes |= {int(rank): node for rank, node in head.get("nodes", {}).items()}
        notes += [note for note in head.get("notes", ()) if note not in notes]
        samples += found
    return TelemetryRecord(nodes, tuple(sorted(samples, key=lambda sample: sample.time)), tuple(notes))


def _of_file(file: Path, after: float) -> tuple[dict[str, Any], list[Sample]]:
    with file.open("rb") as stream:
        head = _json(stream.readline())
        if head.get("version") != VERSION:
            return {}, []
        stream.seek(_place_before(stream, after))
        lines = map(_json, stream)
        samples = [sample for line in lines if (sample := _sample(line, str(head["machine"])))]
    return head, [sample for sample in samples if sample.time > after]


def _place_before(stream: IO[bytes], after: float) -> int:
    """Where to read from, not far before the first line that is later; lines stand in the order of time."""
    first = stream.tell()
    last = stream.seek(0, os.SEEK_END)
    while last - first > NEAR_BYTES:
        middle = (first + last) // 2
        stream.seek(middle)
        stream.readline()
        if _json(stream.readline()).get("t", after + 1) > after:
            last = middle
        else:
            first = middle
    return first


def _json(line: bytes) -> dict[str, Any]:
    """The object in a line; an empty one for a line that is none, or no whole one."""
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _sample(line: dict[str, Any], machine: str) -> Sample | None:
    try:
        return Sample.of(line["t"], machine, {**line, "use": line["machine"]})
    except (KeyError, TypeError, ValueError):
        return None
