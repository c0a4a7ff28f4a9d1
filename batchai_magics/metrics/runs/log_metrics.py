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
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from batchai_magics.errors import UsageError
from batchai_magics.metrics.charts.run_chart import plot
from batchai_magics.metrics.measurement import Record, json_value
from batchai_magics.metrics.measurement_table import MeasurementTable
from batchai_magics.metrics.reading.metric_suggestions import LogStart, notices_of, warn_of
from batchai_magics.metrics.reading.user_patterns import UserPatterns
from batchai_magics.metrics.runs.log_runs import without_repeated
from batchai_magics.metrics.runs.metric_traits import NO_PREFERENCES, MetricPreferences
from batchai_magics.metrics.runs.number_frames import frame, line_rows
from batchai_magics.metrics.runs.number_frames import tidy as to_tidy
from batchai_magics.metrics.runs.run_summary import Summary, summarize

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

_CHUNK_BYTES = 1 << 20
_UTF_16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class LogMetrics:
    """The records of one log in file order, and what can be derived from them.

    Attributes:
        table: The records as columns.
        records: All records, which are created on request.
        notices: What the user should know: numbers that were not read, matches that are not numbers.
        preferences: What the user has said of metrics.
    """

    def __init__(
        self,
        records: Iterable[Record] = (),
        *,
        notices: Sequence[str] = (),
        preferences: MetricPreferences = NO_PREFERENCES,
    ) -> None:
        self.table = MeasurementTable.of(records)
        self.preferences = preferences
        self.notices = tuple(notices)

    @cached_property
    def records(self) -> tuple[Record, ...]:
        """All records."""
        return tuple(self.table)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LogMetrics) and self.records == other.records

    def __hash__(self) -> int:
        return hash(self.records)

    def __repr__(self) -> str:
        return f"LogMetrics({len(self.table)} records)"

    def frame(self, *, tidy: bool = False) -> DataFrame:
        """The lines with numbers as a table.

        Columns are step, rank and epoch, as far as any line has them, then the numbers by name.

        Args:
            tidy: One row per number instead: step, rank, metric, value, unit, wall_time, offset.
        """
        return to_tidy(self.table) if tidy else frame(without_repeated(self.table))

    def summary(self) -> Summary:
        """The metrics of the log, and the speed and ranks of the last run in it that trains."""
        return summarize(self.table, preferences=self.preferences)

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
        return plot(self.table, metrics=metrics, x=x, smooth=smooth, ax=ax, preferences=self.preferences)

    def to_dict(self) -> dict[str, object]:
        """`records`, `total_images_per_sec` and `summary` as JSON-compatible values.

        A record is a line with numbers: its step, rank and epoch, None if unknown, and its numbers by name.
        Those that are not finite are "NaN", "Infinity" or "-Infinity".
        """
        return {
            "records": [json_value(row) for row in line_rows(without_repeated(self.table))],
            **self.totals(),
        }

    def totals(self) -> dict[str, object]:
        """`to_dict` without the records."""
        summary = self.summary()
        return {
            "total_images_per_sec": json_value(summary.total_images_per_sec),
            "summary": summary.to_dict(),
        }

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
    from batchai_magics.metrics.reading.log_parser import read_table  # loads all formats

    problems: Sequence[str] = ()
    preferences = replace(preferences, asked=tuple(patterns))
    if isinstance(source, (str, os.PathLike)) and Path(source).is_dir():
        source, problems = _trainer_lines(Path(source))
    user_patterns, start = UserPatterns(patterns), LogStart()
    with _opened(source) as stream:
        table = read_table(_chunks(stream), user_patterns, start)
    notices = [*problems, *notices_of(user_patterns.mismatches.values(), table, start, patterns)]
    return LogMetrics(table, notices=notices, preferences=preferences)


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
    if not isinstance(source, (str, os.PathLike)):
        yield io.BytesIO(source) if isinstance(source, (bytes, bytearray, memoryview)) else source
        return
    path = Path(source)
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


def _chunks(stream: BinaryIO) -> Iterator[bytes]:
    chunks = iter(lambda: stream.read(_CHUNK_BYTES), b"")
    first = next(chunks, b"")
    if first.startswith(_UTF_16_MARKS):  # PowerShell's `>` writes it
        yield b"".join([first, *chunks]).decode("utf-16", "replace").encode()
    else:
        yield first
        yield from chunks
