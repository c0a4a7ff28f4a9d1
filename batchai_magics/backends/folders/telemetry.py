"""Reads a job's telemetry samples from its folder; incomplete lines are skipped."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import IO, Any

from batchai_magics.models.telemetry_records import Sample, TelemetryRecord

VERSION = 1
SCAN_BYTES = 1 << 14  # ranges up to this size are read, not searched


def read(folder: Path, after: float) -> TelemetryRecord:
    """All samples taken after the time `after`, in seconds since 1970."""
    nodes: dict[int, str] = {}
    notes: list[str] = []
    samples: list[Sample] = []
    for file in sorted(folder.glob("*.jsonl")):
        head, found = _read_file(file, after)
        nodes |= {int(rank): node for rank, node in head.get("nodes", {}).items()}
        notes += [note for note in head.get("notes", ()) if note not in notes]
        samples += found
    return TelemetryRecord(nodes, tuple(sorted(samples, key=lambda sample: sample.time)), tuple(notes))


def _read_file(file: Path, after: float) -> tuple[dict[str, Any], list[Sample]]:
    with file.open("rb") as stream:
        head = _json(stream.readline())
        if head.get("version") != VERSION:
            return {}, []
        stream.seek(_offset_before(stream, after))
        lines = map(_json, stream)
        samples = [sample for line in lines if (sample := _sample(line, str(head["machine"])))]
    return head, [sample for sample in samples if sample.time > after]


def _offset_before(stream: IO[bytes], after: float) -> int:
    """An offset shortly before the first line later than `after`, found by bisection."""
    first = stream.tell()
    last = stream.seek(0, os.SEEK_END)
    while last - first > SCAN_BYTES:
        middle = (first + last) // 2
        stream.seek(middle)
        stream.readline()
        if _json(stream.readline()).get("t", after + 1) > after:
            last = middle
        else:
            first = middle
    return first


def _json(line: bytes) -> dict[str, Any]:
    """The JSON object in a line; empty if it is not a complete object."""
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
