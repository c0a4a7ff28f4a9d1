"""The metrics of a whole log, as printed by `batchai metrics read`."""

from __future__ import annotations

import codecs
import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from batchai_magics.errors import UsageError
from batchai_magics.metrics.charts.run_chart import plot
from batchai_magics.metrics.measurement import Record, StepRecord, json_value
from batchai_magics.metrics.reading.log_parser import Parser
from batchai_magics.metrics.reading.metric_suggestions import LogStart, notices_of, warn_of
from batchai_magics.metrics.runs.metric_traits import NO_PREFERENCES, MetricPreferences
from batchai_magics.metrics.runs.other_programs import value_rows
from batchai_magics.metrics.runs.run_summary import Summary
from batchai_magics.metrics.runs.step_series import COLUMNS, frame, without_empty_columns
from batchai_magics.metrics.runs.summary_builder import summarize, summarize_columns
from batchai_magics.metrics.runs.tidy_table import tidy as to_tidy
from batchai_magics.metrics.runs.value_columns import value_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

    from batchai_magics.metrics.columns.record_columns import Array, Columns, StepColumns

_ROWS = 8192  # a piece
_ACCURACIES = ("top_1", "top_5")
_PLAIN = 1e11  # a smaller number with three decimals is written as it was printed


def json_rows(steps: StepColumns, names: Sequence[str], *, indent: int) -> Iterator[str]:
    """Yield the objects of a JSON array, formatted like `json.dumps` at this indentation.

    A missing rank or accuracy is null; see `json_value` for NaN.
    """
    margin = " " * indent
    lines = ",\n".join(f'{margin}  "{name}": %s' for name in names)
    template = f"{margin}{{\n{lines}\n{margin}}}"
    for start in range(0, len(steps), _ROWS):
        part = steps.take(slice(start, start + _ROWS))
        columns = [_texts(part, name) for name in names]
        yield ",\n" * (start > 0) + ",\n".join(map(template.__mod__, zip(*columns, strict=True)))


def _texts(steps: StepColumns, name: str) -> Iterable[str]:
    from batchai_magics.metrics.columns.record_columns import NO_RANK  # loads numpy: only for large logs

    column = getattr(steps, name)
    if name == "rank":
        return ["null" if rank == NO_RANK else str(rank) for rank in column.tolist()]
    if name not in _ACCURACIES:
        return _numbers(column)
    if not steps.has_accuracy.any():
        return repeat("null", len(column))
    return [
        text if is_there else "null"
        for text, is_there in zip(_numbers(column), steps.has_accuracy.tolist(), strict=True)
    ]


def _numbers(column: Array) -> Iterable[str]:
    """Format each number as JSON; only unusual values take the slow path through `json_value`."""
    if (abs(column) < _PLAIN).all():
        return map(repr, column.tolist())
    return [json.dumps(json_value(value)) for value in column.tolist()]


_CHUNK_BYTES = 1 << 20
_UTF_16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_LARGE_BYTES = 1 << 20  # larger logs are worth importing numpy for


class LogMetrics:
    """The records of one log in file order, and what can be derived from them.

    A large log is held as columns, and its records are created on request.

    Attributes:
        records: All records.
        notices: What the user should know: numbers that were not read, matches that are not numbers.
        preferences: What the user has said of metrics.
    """

    def __init__(
        self,
        records: Iterable[Record] = (),
        *,
        columns: Columns | None = None,
        notices: Sequence[str] = (),
        preferences: MetricPreferences = NO_PREFERENCES,
    ) -> None:
        self._columns = columns
        self.preferences = preferences
        self.notices = tuple(notices)
        if columns is None:
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
        """The step lines as a table.

        Columns are step, rank, images_per_sec, uncertainty, jitter, loss, top_1, top_5, as far as they have
        values. For other programs, each line with numbers is a row.

        Args:
            tidy: One row per number instead: step, rank, metric, value, unit, wall_time, offset.
        """
        if tidy:
            return to_tidy(self.records)
        if self._columns is None:
            return frame(self.records)
        if self._has_columns or not self._columns.has_values:
            return without_empty_columns(self._columns.frame())
        return without_empty_columns(value_frame(self._columns, COLUMNS))

    def summary(self) -> Summary:
        """Speed, ranks and loss of the last run in the log."""
        if self._columns and self._has_columns:
            return summarize_columns(self._columns, self.preferences)
        return summarize(self.records, preferences=self.preferences)

    @property
    def _has_columns(self) -> bool:
        return self._columns is not None and len(self._columns.steps) > 0

    def plot(
        self,
        *,
        metrics: str | Sequence[str] = (),
        x: str = "",
        smooth: float = 0.0,
        ax: Axes | None = None,
    ) -> Axes:
        """Plot metrics over `step`, `epoch` or `time`; see `metrics.plot`.

        The result displays its figure in a notebook.
        """
        return plot(self.records, metrics=metrics, x=x, smooth=smooth, ax=ax, preferences=self.preferences)

    def to_dict(self) -> dict[str, object]:
        """`records`, `total_images_per_sec` and `summary` as JSON-compatible values.

        An unknown rank is None; numbers that are not finite are "NaN", "Infinity" or "-Infinity". For
        programs other than tf_cnn_benchmarks, a record is a line with numbers.
        """
        summary = self.summary()
        return {
            "records": self._rows(),
            "total_images_per_sec": json_value(summary.total_images_per_sec),
            "summary": summary.to_dict(),
        }

    def json_pieces(self) -> Iterator[str]:
        """Yield `to_dict` as JSON text indented by two spaces, in chunks if the log is large."""
        if self._columns is None or not self._has_columns:
            yield self.to_json(indent=2)
            return

        summary = self.summary()
        rest = {"total_images_per_sec": summary.total_images_per_sec, "summary": summary.to_dict()}
        yield '{\n  "records": [\n'
        yield from json_rows(self._columns.steps, COLUMNS, indent=4)
        yield "\n  ],\n" + json.dumps(rest, indent=2, ensure_ascii=False)[2:]

    def _rows(self) -> list[dict[str, Any]]:
        steps = [_row(record) for record in self.records if isinstance(record, StepRecord)]
        return steps or [json_value(row) for row in value_rows(self.records)]

    def to_json(self, *, indent: int | None = None) -> str:
        """`to_dict` as JSON text."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)


def read_metrics(
    source: str | os.PathLike[str] | bytes | BinaryIO, *, patterns: Mapping[str, str] = {}
) -> LogMetrics:
    """Read the metrics of a log.

    Args:
        source: A path, the bytes of a log, or an open binary stream, which is read in chunks. Of a folder,
            the files that trainers log to: TensorBoard's event files, `metrics.csv`, JSON lines (`*.jsonl`).
        patterns: Additional metrics: regular expressions by name. See `Parser`.

    Warns:
        MetricsWarning: The log has numbers that were not read, or a pattern matched what is not a number.

    Raises:
        UsageError: The file cannot be read or a pattern is invalid.
    """
    log = read_log(source, patterns)
    warn_of(log.notices)
    return log


def read_log(
    source: str | os.PathLike[str] | bytes | BinaryIO,
    patterns: Mapping[str, str],
    preferences: MetricPreferences = NO_PREFERENCES,
) -> LogMetrics:
    """`read_metrics` without warnings; the result has them as `notices`."""
    problems: Sequence[str] = ()
    preferences = replace(preferences, asked=tuple(patterns))
    if isinstance(source, (str, os.PathLike)) and Path(source).is_dir():
        source, problems = _trainer_lines(Path(source))
    with _opened(source) as stream:
        head = _read_head(stream)
        if head.startswith(_UTF_16_MARKS):  # PowerShell's `>` writes it
            head, stream = (head + stream.read()).decode("utf-16", "replace").encode(), io.BytesIO()
        start = LogStart()
        start.add(head)
        is_large = not patterns and len(head) >= _LARGE_BYTES and hasattr(stream, "readinto")
        if is_large:
            from batchai_magics.metrics.reading.log_reader import read_stream

            notices = [*problems, *notices_of((), (), start)]
            return LogMetrics(columns=read_stream(head, stream), notices=notices, preferences=preferences)
        parser = Parser(patterns)
        records = tuple(_parse(chain([head], iter(lambda: stream.read(_CHUNK_BYTES), b"")), parser))
        notices = [*problems, *notices_of(parser.mismatches, records, start)]
        return LogMetrics(records, notices=notices, preferences=preferences)


def _trainer_lines(folder: Path) -> tuple[bytes, list[str]]:
    """What the files of trainers below a folder hold, as lines of a log, and a notice for each bad file."""
    from batchai_magics.metrics.reading import trainer_files  # few readers need it

    if not trainer_files.find(folder):
        text = f"the folder {folder} has no event files of TensorBoard, no metrics.csv and no *.jsonl"
        raise UsageError(text, hint="Give the path of a log file, or of another folder.")
    data, problems = trainer_files.json_lines(folder)
    return data, [f"{problem}; its numbers from there on are missing" for problem in problems]


@contextmanager
def _opened(source: str | os.PathLike[str] | bytes | BinaryIO) -> Iterator[Any]:
    """The source as a binary stream."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        yield io.BytesIO(source)
    elif isinstance(source, (str, os.PathLike)):
        with _opened_file(Path(source)) as stream:
            yield stream
    else:
        yield source


@contextmanager
def _opened_file(path: Path) -> Iterator[BinaryIO]:
    try:
        stream = path.open("rb", buffering=0)
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    with stream:
        try:
            yield stream
        except OSError as error:
            raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> UsageError:
    reason = getattr(error, "strerror", None) or str(error)
    return UsageError(f"cannot read the log {path}: {reason}", hint="Give the path of a log file.")


def _read_head(stream: BinaryIO) -> bytes:
    """Read enough of the log to know whether it is large."""
    pieces, size_bytes = [], 0
    while size_bytes < _LARGE_BYTES and (piece := stream.read(_CHUNK_BYTES)):
        pieces.append(piece)
        size_bytes += len(piece)
    return b"".join(pieces)


def _parse(chunks: Iterable[bytes], parser: Parser) -> Iterator[Record]:
    for chunk in chunks:
        yield from parser.feed(chunk)
    yield from parser.finish()


def _row(record: StepRecord) -> dict[str, Any]:
    return {name: json_value(getattr(record, name)) for name in COLUMNS}
