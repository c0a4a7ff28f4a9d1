"""What trainers log to files: TensorBoard's event files, Lightning's `metrics.csv`, JSON lines.

Everything becomes JSON lines as `log()` prints them, so that one parser reads it. A file may still grow, be
rewritten, or end in the middle of a record. Standard library only.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, cast

from batchai_magics.metrics.reading.event_files import EventFileReader
from batchai_magics.untrusted_files import open_file, parse_json

MAX_DEPTH, MAX_ENTRIES = 6, 20_000  # of the folders that are searched
MAX_TEXT_BYTES = 256 << 20  # of a file of text
MAX_KEYS = 100_000  # numbers that are compared with later ones
BLOCK_BYTES = 1 << 20  # longer lines are skipped
_BEFORE_BYTES = 64  # that are compared to detect whether a file was rewritten
_STEPS = ("step", "global_step", "iteration", "iter", "epoch")
_TIMES = ("time", "timestamp", "ts")
_POSITION_KEYS = frozenset((*_STEPS, *_TIMES, "rank"))
_NESTED = ("metrics", "data")
_RANK = re.compile(r"rank-(\d+)")  # the folder of a further rank of an export
_PHASES = {"validation": "val", "val": "val", "valid": "val", "eval": "val", "test": "test"}

Values = dict[str, Any]


def is_trainer_file(name: str) -> bool:
    """Whether a file of this name may hold a trainer's metrics."""
    return "tfevents" in name or name == "metrics.csv" or name.endswith((".jsonl", ".ndjson"))


def find(folder: Path) -> list[Path]:
    """The files of trainers below a folder, within limits; links are not followed."""
    paths, entries = list[Path](), 0
    for root, folders, names in os.walk(folder):
        entries += len(folders) + len(names)
        is_deep = len(Path(root).relative_to(folder).parts) >= MAX_DEPTH
        folders[:] = [] if is_deep or entries > MAX_ENTRIES else sorted(folders)
        paths += [Path(root, name) for name in sorted(names) if is_trainer_file(name)]
    return paths


def json_lines(folder: Path) -> tuple[bytes, list[str]]:
    """Read the files below a folder: their numbers as JSON lines, file by file, and why some were not read.

    A name counts once at a step.
    """
    lines, data, problems = NumberLines(), list[bytes](), list[str]()
    for path in find(folder):
        file = TrainerFile(path)
        data += map(lines.line, file.read(is_last=True))
        problems += [f"{path.relative_to(folder)}: {file.problem}"] if file.problem else []
    return b"".join(data), problems


class NumberLines:
    """Makes JSON lines of values; a name counts once at a step of a rank."""

    def __init__(self) -> None:
        self._seen: dict[int, None] = {}  # hashes, the oldest first

    def line(self, values: Values) -> bytes:
        """The line with the new ones of these values; empty if there are none."""
        position = tuple(values.get(key) for key in (*_STEPS, "rank"))
        names = [name for name in values.keys() - _POSITION_KEYS if self._is_new(hash((name, *position)))]
        if not names:
            return b""
        new_values = {
            name: value for name, value in values.items() if name in names or name in _POSITION_KEYS
        }
        return json.dumps(new_values).encode() + b"\n"

    def _is_new(self, key: int) -> bool:
        if key in self._seen:
            return False
        self._seen[key] = None
        if len(self._seen) > MAX_KEYS:
            del self._seen[next(iter(self._seen))]
        return True


class TrainerFile:
    """Reads the numbers of a file, from `offset` on, as they are added, up to where it is unreadable.

    Attributes:
        problem: Why the rest cannot be read; empty as long as it can.
    """

    def __init__(self, file: Path, *, offset: int = 0) -> None:
        is_event_file = "tfevents" in file.name
        self._reader = _EventValues(file, offset) if is_event_file else _TextValues(file, offset)
        self.problem = ""

    def read(self, *, is_last: bool = False) -> Iterator[Values]:
        """Yields the values, with their position, of each event or line completed since the last call.

        `is_last`: the file is complete, so its last line needs no end.
        """
        try:
            yield from self._reader.read(is_last=is_last)
        except (OSError, csv.Error, ValueError, OverflowError) as error:
            self.problem = getattr(error, "strerror", None) or str(error)
            return
        self.problem = self._reader.problem


class _EventValues:
    """The scalars of an event file; the name of its folder may be a phase (Keras) or a rank."""

    def __init__(self, file: Path, offset: int) -> None:
        self._events = EventFileReader(file, offset)
        phase, rank = _PHASES.get(file.parent.name.lower(), ""), _RANK.fullmatch(file.parent.name)
        self._phase, self._rank = phase, {"rank": int(rank[1])} if rank else {}

    @property
    def problem(self) -> str:
        """Why the rest cannot be read."""
        return self._events.problem

    def read(self, *, is_last: bool) -> Iterator[Values]:
        for point in self._events.read():
            is_named = not self._phase or self._phase in point.name.lower()
            name = point.name if is_named else f"{self._phase}_{point.name}"
            yield {"time": round(point.time, 3), "step": point.step, **self._rank, name: point.value}


class _TextValues:
    """The rows of a CSV file or the objects of JSON lines, as far as they have a step or an epoch."""

    def __init__(self, file: Path, offset: int) -> None:
        self._file, self._offset, self.problem = file, offset, ""
        self._before, self._columns = b"", list[str]()
        self._is_cut = False  # within a line that is too long
        self._of_line = self._row if file.name.endswith(".csv") else _object

    def read(self, *, is_last: bool) -> Iterator[Values]:
        with open_file(self._file) as raw, io.BufferedReader(cast("io.FileIO", raw)) as stream:
            self._seek_next(stream)
            while self._offset < MAX_TEXT_BYTES and (lines := self._next_lines(stream, is_last=is_last)):
                for line in lines:
                    values = self._of_line(line)
                    if values.keys() & set(_STEPS):
                        yield values
        if self._offset >= MAX_TEXT_BYTES:
            self.problem = f"it is larger than {MAX_TEXT_BYTES >> 20} MiB"

    def _seek_next(self, stream: BinaryIO) -> None:
        """Starts from the beginning if the file was rewritten; else reads the columns if they are unknown."""
        stream.seek(max(0, self._offset - _BEFORE_BYTES))
        before = stream.read(min(self._offset, _BEFORE_BYTES))
        is_same = not self._before or before == self._before
        if len(before) < min(self._offset, _BEFORE_BYTES) or not is_same:
            self._offset, self._before, self._columns, self._is_cut = 0, b"", [], False
        elif self._offset and not self._columns:
            stream.seek(0)
            self._row(stream.readline(BLOCK_BYTES))

    def _next_lines(self, stream: BinaryIO, *, is_last: bool) -> list[bytes]:
        """The next complete lines, at most a block; empty at the end."""
        stream.seek(self._offset)
        block = stream.read(BLOCK_BYTES)
        end = block.rfind(b"\n") + 1
        is_too_long = not end and len(block) == BLOCK_BYTES
        if is_too_long or (is_last and len(block) < BLOCK_BYTES):
            end = len(block)
        self._offset += end
        self._before = (self._before + block[:end])[-_BEFORE_BYTES:]
        lines = block[:end].splitlines(keepends=True)
        was_cut, self._is_cut = self._is_cut, is_too_long if end else self._is_cut
        return [b"\n"] if is_too_long else [*([b"\n"] if was_cut else []), *lines[was_cut:]]

    def _row(self, line: bytes) -> Values:
        """The cells of a row; an unfinished row may end in half a number, an empty cell is no value."""
        if not line.endswith(b"\n"):
            return {}
        cells = next(csv.reader([line.decode("utf-8", errors="replace")]), [])
        if not self._columns:
            self._columns = cells
            return {}
        numbers = {name: _number(cell) for name, cell in zip(self._columns, cells)}  # noqa: B905 rows may be short
        return {
            name: int(value) if name in _STEPS and value.is_integer() else value
            for name, value in numbers.items()
            if name and value is not None
        }


def _object(line: bytes) -> Values:
    """The numbers of a JSON object, those in its `metrics` or `data` too, with their position."""
    try:
        data = parse_json(line) if line.startswith(b"{") else None
    except ValueError:
        return {}
    if not isinstance(data, dict):
        return {}
    if isinstance(data.get("name"), str):  # {"name": "loss", "value": 0.5, "global_step": 100}
        data = {**_position_in(data), data["name"]: data.get("value")}
    nested = [part for key in _NESTED if isinstance(part := data.get(key), dict)]
    numbers = {key: value for part in (data, *nested) for key, value in part.items() if _is_number(value)}
    return {**_position_in(data), **numbers}


def _position_in(data: Mapping[str, Any]) -> Values:
    """The position in an object; its time may be a text."""
    return {
        key: value
        for key, value in data.items()
        if key in _POSITION_KEYS and (_is_number(value) or (key in _TIMES and isinstance(value, str)))
    }


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None
