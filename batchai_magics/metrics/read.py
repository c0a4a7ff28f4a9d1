"""A whole log as numbers: what `batchai metrics read` prints."""

from __future__ import annotations

import io
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from batchai_magics.errors import UsageError
from batchai_magics.metrics.chart import plot
from batchai_magics.metrics.numbers import tidy as to_tidy
from batchai_magics.metrics.parser import Parser
from batchai_magics.metrics.record import Record, StepRecord
from batchai_magics.metrics.series import COLUMNS, frame
from batchai_magics.metrics.summary import Summary, summarize
from batchai_magics.metrics.values import value_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

    from batchai_magics.metrics.bulk_columns import Columns

_CHUNK_BYTES = 1 << 20
_BULK_BYTES = 1 << 20  # a log of this size is worth the import of numpy


class LogMetrics:
    """The records of one log in file order, and what can be made of them.

    A big log is held as columns: its records become objects when they are asked for.
    """

    def __init__(self, records: Iterable[Record] | Columns) -> None:
        self._columns = None if isinstance(records, Iterable) else records
        if isinstance(records, Iterable):
            self.records = tuple(records)

    @cached_property
    def records(self) -> tuple[Record, ...]:
        """All records."""
        return tuple(self._columns.records()) if self._columns else ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LogMetrics) and self.records == other.records

    def __hash__(self) -> int:
        return hash(self.records)

    def __repr__(self) -> str:
        return f"LogMetrics({len(self.records)} records)"

    def frame(self, *, tidy: bool = False) -> DataFrame:
        """One row per step line: step, rank, images_per_sec, uncertainty, jitter, loss, top_1, top_5.

        In the log of another program, one row per line with numbers. With `tidy`, one row per number: step,
        rank, metric, value, unit, wall_time, offset.
        """
        if tidy:
            return to_tidy(self.records)
        return self._columns.frame() if self._columns and len(self._columns.steps) else frame(self.records)

    def summary(self) -> Summary:
        """Speed, ranks and loss of the log's last run."""
        return summarize(self.records)

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Images/sec and loss over steps; the value shows itself in a notebook."""
        return plot(self.records, ax=ax)

    def to_dict(self) -> dict[str, object]:
        """`records`, `total_images_per_sec` and `summary`, ready for JSON.

        A rank that the log does not tell is None; so is a number that is not finite, which JSON has not. In
        the log of another program than tf_cnn_benchmarks, a record is a line with numbers.
        """
        summary = self.summary()
        return {
            "records": self._rows(),
            "total_images_per_sec": summary.total_images_per_sec,
            "summary": summary.to_dict(),
        }

    def _rows(self) -> list[dict[str, float | None]]:
        steps = [_row(record) for record in self.records if isinstance(record, StepRecord)]
        return steps or [_finite(row) for row in value_rows(self.records)]

    def to_json(self, *, indent: int | None = None) -> str:
        """The text of `to_dict` as JSON."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)


def read_metrics(
    source: str | os.PathLike[str] | bytes | BinaryIO, *, patterns: Mapping[str, str] = {}
) -> LogMetrics:
    """The metrics of a log: a path, the bytes themselves, or an open binary stream, read piece by piece.

    UsageError if the file cannot be read or a pattern cannot work.
    """
    chunks = _chunks(source)
    head = list(_until(chunks, _BULK_BYTES))
    if not patterns and sum(map(len, head)) >= _BULK_BYTES:
        from batchai_magics.metrics.bulk import read_columns

        return LogMetrics(read_columns(chain(head, chunks)))
    return LogMetrics(_parse(chain(head, chunks), Parser(patterns)))


def _parse(chunks: Iterable[bytes], parser: Parser) -> Iterator[Record]:
    for chunk in chunks:
        yield from parser.feed(chunk)
    yield from parser.finish()


def _until(chunks: Iterator[bytes], size_bytes: int) -> Iterator[bytes]:
    """So many chunks as have this size together."""
    for chunk in chunks:
        yield chunk
        size_bytes -= len(chunk)
        if size_bytes <= 0:
            return


def _chunks(source: str | os.PathLike[str] | bytes | BinaryIO) -> Iterator[bytes]:
    if isinstance(source, (bytes, bytearray, memoryview)):
        yield from _read(io.BytesIO(source))
    elif isinstance(source, (str, os.PathLike)):
        yield from _read_file(Path(source))
    else:
        yield from _read(source)


def _read_file(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as stream:
            yield from _read(stream)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"cannot read the log {path}: {reason}", hint="Give the path of a log file."
        ) from error


def _read(stream: BinaryIO) -> Iterator[bytes]:
    while chunk := stream.read(_CHUNK_BYTES):
        yield chunk


def _row(record: StepRecord) -> dict[str, float | None]:
    return _finite({name: getattr(record, name) for name in COLUMNS})


def _finite(row: Mapping[str, float | None]) -> dict[str, float | None]:
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in row.items()
    }
