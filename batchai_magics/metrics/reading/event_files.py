"""TensorBoard's event files: writes and reads their scalars.

An event file is a sequence of records: length, CRC of the length, a protobuf `Event`, its CRC (TensorFlow's
`record_writer.h`, `event.proto`, `summary.proto`). Standard library only.
"""

from __future__ import annotations

import math
import struct
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from batchai_magics.models.runs.scalar_export import ExportedRun, ScalarPoint
from batchai_magics.untrusted_files import open_file

OWN_PREFIX = "events.out.tfevents.batchai-"  # of the files that `EventFileWriter` writes
_MAX_LENGTH = 1 << 31  # which protobuf cannot exceed
MAX_EVENT_BYTES = 1 << 16  # larger events hold images or graphs
_VERSION = b"brain.Event:2"
_HEADER_BYTES, _FOOTER_BYTES = 12, 4
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # protobuf's wire types
_VARINT_BITS = 63
_WIDTHS = {_FIXED64: 8, _FIXED32: 4}
_DTYPES = {1: "<f", 2: "<d"}  # of tensors: DT_FLOAT, DT_DOUBLE


class EventFileWriter:
    """Writes the metrics of a run below a folder of TensorBoard; see `ScalarWriter`.

    The run is the subfolder with its name; ranks other than 0 are runs below it. Exporting a run again
    replaces its files.
    """

    def __init__(self, folder: Path, run: ExportedRun) -> None:
        self._folder, self._run = folder / run.name, run
        self._files: dict[int, BinaryIO] = {}

    def add_parameters(self, parameters: Mapping[str, str]) -> None:
        """Does nothing: event files hold only numbers."""

    def write(self, points: Iterable[ScalarPoint]) -> None:
        """Appends points, and flushes them."""
        for point in points:
            rank = point.rank or 0
            if rank not in self._files:
                folder = self._folder / f"rank-{rank}" if rank else self._folder
                folder.mkdir(parents=True, exist_ok=True)
                self._files[rank] = (folder / f"{OWN_PREFIX}{self._run.guid}").open("wb")
                self._files[rank].write(_record(_double(1, self._run.started) + _bytes(3, _VERSION)))
            self._files[rank].write(_record(_event(point)))
        for file in self._files.values():
            file.flush()

    def finish(self, state: str, ended: float) -> None:
        """Closes the files; TensorBoard knows no states of runs."""
        for file in self._files.values():
            file.close()
        self._files.clear()


class EventFileReader:
    """Reads the scalars of an event file that may still grow, from `offset` on, up to where it is damaged.

    Attributes:
        problem: Why the rest cannot be read; empty as long as it can.
    """

    def __init__(self, file: Path, offset: int = 0) -> None:
        self._file, self._offset = file, offset
        self.problem = ""

    def read(self) -> Iterator[ScalarPoint]:
        """Yields the scalars of the events that were completed since the last call."""
        if self.problem:
            return
        with open_file(self._file) as stream:
            while (event := self._next_event(stream)) is not None:
                yield from _scalars(event)

    def _next_event(self, stream: BinaryIO) -> bytes | None:
        """The next complete event, empty if it is large; None without one, or if the file is damaged."""
        stream.seek(self._offset)
        header = stream.read(_HEADER_BYTES)
        if len(header) < _HEADER_BYTES:
            return None
        (length,) = struct.unpack("<Q", header[:8])
        if _masked_crc(header[:8]) != header[8:] or length > _MAX_LENGTH:
            self.problem = f"its event at byte {self._offset} is damaged"
            return None
        end = self._offset + _HEADER_BYTES + length + _FOOTER_BYTES
        if length > MAX_EVENT_BYTES:
            stream.seek(end - 1)
            event = b"" if stream.read(1) else None
        else:
            data = stream.read(length + _FOOTER_BYTES)
            event = data[:length] if len(data) == length + _FOOTER_BYTES else None
        if event is not None:
            self._offset = end
        return event


def _event(point: ScalarPoint) -> bytes:
    """The event of a point; a value that 32 bits cannot hold becomes infinity."""
    try:
        number = struct.pack("<f", point.value)
    except OverflowError:
        number = struct.pack("<f", math.copysign(math.inf, point.value))
    value = _bytes(1, point.name.encode()) + _key(2, _FIXED32) + number
    step = _key(2, _VARINT) + _varint(point.step & (1 << 64) - 1)
    return _double(1, point.time) + step + _bytes(5, _bytes(1, value))


def _record(event: bytes) -> bytes:
    length = struct.pack("<Q", len(event))
    return length + _masked_crc(length) + event + _masked_crc(event)


def _scalars(event: bytes) -> Iterator[ScalarPoint]:
    """The scalars of an event; none if it is malformed."""
    try:
        fields = _Fields(event)
        seconds, step = fields.content(1), fields.integer(2)
        at = struct.unpack("<d", seconds)[0] if seconds else time.time()
        step = step - (1 << 64) if step >> 63 else step
        for item in _Fields(fields.content(5)).all_contents(1):
            value = _Fields(item)
            scalar = _scalar(value)
            if scalar is not None:
                yield ScalarPoint(value.content(1).decode("utf-8", errors="replace"), scalar, step, at)
    except (IndexError, struct.error, ValueError):
        return


def _scalar(value: _Fields) -> float | None:
    """A summary value's scalar: its `simple_value`, or a tensor of rank 0 (TensorFlow 2); else None."""
    if simple := value.content(2):
        return float(struct.unpack("<f", simple)[0])
    tensor = _Fields(value.content(8))
    kind = _DTYPES.get(tensor.integer(1))
    content = tensor.content(4) or tensor.content(5 if kind == "<f" else 6)
    has_axes = bool(_Fields(tensor.content(2)).all_contents(2))
    if not kind or has_axes or len(content) != struct.calcsize(kind):
        return None
    return float(struct.unpack(kind, content)[0])


class _Fields:
    """The fields of a protobuf message, by number; a missing one is 0 or empty."""

    def __init__(self, message: bytes) -> None:
        self._fields = list(_fields(message))

    def integer(self, number: int) -> int:
        """The last integer with this number."""
        integers = [value for field, value in self._fields if field == number and isinstance(value, int)]
        return integers[-1] if integers else 0

    def content(self, number: int) -> bytes:
        """The last bytes with this number: text, a message or a fixed-width number."""
        return (self.all_contents(number) or [b""])[-1]

    def all_contents(self, number: int) -> list[bytes]:
        """All bytes with this number, in order."""
        return [value for field, value in self._fields if field == number and isinstance(value, bytes)]


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The number and the value of each field of a protobuf message. Raises ValueError if it is cut off."""
    at = 0
    while at < len(message):
        key, at = _read_varint(message, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _read_varint(message, at)
            yield key >> 3, value
            continue
        if kind == _BYTES:
            size, at = _read_varint(message, at)
        else:
            size = _WIDTHS.get(kind, len(message) + 1)
        if at + size > len(message):
            raise ValueError("a field is cut off, or of an unknown type")
        yield key >> 3, message[at : at + size]
        at += size


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
        if shift > _VARINT_BITS:
            raise ValueError("a number is longer than 64 bits")


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def _key(number: int, kind: int) -> bytes:
    return _varint(number << 3 | kind)


def _bytes(number: int, content: bytes) -> bytes:
    return _key(number, _BYTES) + _varint(len(content)) + content


def _double(number: int, value: float) -> bytes:
    return _key(number, _FIXED64) + struct.pack("<d", value)


def _crc_table() -> list[int]:
    table = []
    for index in range(256):
        remainder = index
        for _ in range(8):
            remainder = remainder >> 1 ^ (0x82F63B78 if remainder & 1 else 0)  # Castagnoli's polynomial
        table.append(remainder)
    return table


_CRC_TABLE = _crc_table()


def _masked_crc(data: bytes) -> bytes:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC_TABLE[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
