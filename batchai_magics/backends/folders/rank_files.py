"""What the processes of a run write into its folder: samples of resource usage, and logged parameters.

Standard library only: nodes read them too.
"""

from __future__ import annotations

import os
from io import BufferedReader, FileIO
from pathlib import Path
from typing import IO, Any, cast

from batchai_magics.models.runs.labels import Parameter, bounded
from batchai_magics.models.secret_masking import without_secrets
from batchai_magics.models.telemetry_records import Sample, TelemetryRecord
from batchai_magics.untrusted_files import open_file, parse_json, read_json

VERSION = 1
MAX_TELEMETRY_BYTES = 64 << 20  # of the samples of a file
MAX_LINE_BYTES = 1 << 20
SCAN_BYTES = 1 << 14  # ranges up to this size are read, not searched


def logged_in(file: Path) -> dict[str, Parameter]:
    """The parameters in a file, without secrets; empty if it is missing or unreadable."""
    try:
        data = read_json(file)
    except (OSError, ValueError):
        return {}
    return without_secrets(bounded(data)) if isinstance(data, dict) else {}


def read_telemetry(folder: Path, after: float) -> TelemetryRecord:
    """All samples taken after the time `after`, in seconds since 1970."""
    nodes: dict[int, str] = {}
    notes: list[str] = []
    samples: list[Sample] = []
    for file in sorted(folder.glob("*.jsonl")):
        try:
            head, new_samples = read_samples(file, after)
            nodes |= {int(rank): str(node) for rank, node in head.get("nodes", {}).items()}
            new_notes = list(map(str, head.get("notes", ())))
        except (OSError, ValueError, TypeError, AttributeError) as error:  # the job has replaced it
            new_notes, new_samples = [f"{file.name} cannot be read: {error}"], []
        notes += [note for note in new_notes if note not in notes]
        samples += new_samples
    return TelemetryRecord(nodes, tuple(sorted(samples, key=lambda sample: sample.time)), tuple(notes))


def read_samples(file: Path, after: float) -> tuple[dict[str, Any], list[Sample]]:
    """The head of a file of samples, and those taken after a time."""
    with BufferedReader(cast("FileIO", open_file(file))) as stream:
        head = _json(stream.readline(MAX_LINE_BYTES))
        if head.get("version") != VERSION:
            return {}, []
        machine, last = str(head.get("machine", "")), stream.seek(_offset_before(stream, after))
        last += MAX_TELEMETRY_BYTES
        lines = iter(lambda: stream.readline(MAX_LINE_BYTES) if stream.tell() < last else b"", b"")
        samples = [sample for line in lines if (sample := Sample.of_line(line, machine))]
    return head, [sample for sample in samples if sample.time > after]


def _offset_before(stream: IO[bytes], after: float) -> int:
    """An offset shortly before the first line later than `after`, found by bisection."""
    first = stream.tell()
    last = stream.seek(0, os.SEEK_END)
    while last - first > SCAN_BYTES:
        middle = (first + last) // 2
        stream.seek(middle)
        stream.readline(MAX_LINE_BYTES)
        time = _json(stream.readline(MAX_LINE_BYTES)).get("t")
        if not isinstance(time, int | float) or time > after:
            last = middle
        else:
            first = middle
    return first


def _json(line: bytes) -> dict[str, Any]:
    """The JSON object in a line; empty if it is not a complete object."""
    try:
        value = parse_json(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
