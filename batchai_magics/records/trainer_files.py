"""What trainers log to files: TensorBoard's event files, Lightning's `metrics.csv`, JSON lines.

Everything becomes JSON lines as `log()` prints them, so that one parser reads it. Standard library only.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from batchai_magics.records.event_files import EventFileReader

MAX_DEPTH, MAX_ENTRIES = 6, 20_000  # of the folders that are searched
MAX_TEXT_BYTES = 256 << 20  # of a file of text
_STEPS = ("step", "global_step", "iteration", "iter", "epoch")
_RANK = re.compile(r"rank-(\d+)")  # the folder of a further rank of an export
_PHASES = {"validation": "val", "val": "val", "valid": "val", "eval": "val", "test": "test"}

Values = dict[str, Any]


def is_trainer_file(name: str) -> bool:
    """Whether a file of that name may hold metrics of a trainer."""
    return "tfevents" in name or name == "metrics.csv" or name.endswith((".jsonl", ".ndjson"))


def find(folder: Path) -> list[Path]:
    """The files of trainers below a folder, within limits; links are not followed."""
    found, entries = [], 0
    for root, folders, names in os.walk(folder):
        entries += len(folders) + len(names)
        is_deep = len(Path(root).relative_to(folder).parts) >= MAX_DEPTH
        folders[:] = [] if is_deep or entries > MAX_ENTRIES else sorted(folders)
        found += [Path(root, name) for name in sorted(names) if is_trainer_file(name)]
    return found


def json_lines(folder: Path) -> Iterator[bytes]:
    """The numbers in the files below a folder as JSON lines, by file; a name counts once at a step."""
    seen: set[tuple[Any, ...]] = set()
    for file in find(folder):
        for values in read_file(file):
            place = tuple(values.get(key) for key in (*_STEPS, "rank"))
            new = {key: value for key, value in values.items() if (key, *place) not in seen}
            seen.update((key, *place) for key in new if key not in (*_STEPS, "rank", "time"))
            if new.keys() - {*_STEPS, "rank", "time"}:
                yield json.dumps(_with_place(new, values)).encode() + b"\n"


def read_file(file: Path) -> Iterator[Values]:
    """The values of each line or event of a file, with its position; nothing for an unreadable file."""
    try:
        if "tfevents" in file.name:
            yield from _events(file)
        elif file.stat().st_size <= MAX_TEXT_BYTES:
            text = file.read_text(encoding="utf-8", errors="replace")
            yield from _rows(text) if file.name.endswith(".csv") else _objects(text)
    except (OSError, csv.Error):
        return


def _events(file: Path) -> Iterator[Values]:
    """The scalars of an event file; its folder tells phase (as Keras') or rank."""
    phase, rank = _PHASES.get(file.parent.name.lower(), ""), _RANK.fullmatch(file.parent.name)
    for point in EventFileReader(file).read():
        name = point.name if not phase or phase in point.name.lower() else f"{phase}_{point.name}"
        place = {"time": round(point.time, 3), "step": point.step, **({"rank": int(rank[1])} if rank else {})}
        yield {**place, name: point.value}


def _rows(text: str) -> Iterator[Values]:
    """The rows of a CSV file with a column of steps or epochs; empty cells are no values."""
    for row in csv.DictReader(io.StringIO(text)):
        values = {name: _number(cell) for name, cell in row.items() if name and isinstance(cell, str)}
        known = {name: value for name, value in values.items() if value is not None}
        if known.keys() & set(_STEPS):
            yield {
                name: int(value) if name in _STEPS and value.is_integer() else value
                for name, value in known.items()
            }


def _objects(text: str) -> Iterator[Values]:
    """The JSON objects of lines that have a step or an epoch."""
    for line in text.splitlines():
        try:
            values = json.loads(line) if line.startswith("{") else None
        except (ValueError, RecursionError):
            continue
        if isinstance(values, dict) and values.keys() & set(_STEPS):
            yield values


def _with_place(values: Values, line: Mapping[str, Any]) -> Values:
    return {**{key: line[key] for key in ("time", *_STEPS, "rank") if key in line}, **values}


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None
