"""Exports the metrics of a job to a file, to TensorBoard's files or to an MLflow server."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchai_magics.errors import StorageError, UnreachableError, UsageError, did_you_mean
from batchai_magics.metrics.measurement import Record, json_value
from batchai_magics.metrics.reading.event_files import EventFileWriter
from batchai_magics.metrics.runs.log_runs import without_repeated
from batchai_magics.metrics.runs.positions import MetricPoints
from batchai_magics.models.resources import JobResource
from batchai_magics.models.runs.labels import Labels
from batchai_magics.models.runs.scalar_export import ExportedRun, ScalarWriter, check_tracking_uri
from batchai_magics.records.mlflow_runs import MlflowRun

if TYPE_CHECKING:
    from pandas import DataFrame, Series

TENSORBOARD, MLFLOW = "tensorboard", "mlflow"
MLFLOW_NOTE = "mlflow.note.content"  # the tag that MLflow shows as the description of a run


def export_points(
    job: JobResource, labels: Labels, records: Iterable[Record], *, kind: str, to: str | Path
) -> str:
    """Exports records to TensorBoard's files in a folder or to an MLflow server; returns the target.

    Raises:
        UsageError: The address of the server is invalid.
        StorageError: The files cannot be written.
        UnreachableError: The server refuses the export, or does not respond.
    """
    run = exported_run(job, labels)
    writer: ScalarWriter
    if kind == TENSORBOARD:
        writer = EventFileWriter(Path(to).expanduser(), run)
    else:
        try:
            check_tracking_uri(str(to))
        except ValueError as error:
            raise UsageError(f"job.export: {error}") from None
        writer = MlflowRun(str(to), run, env=os.environ)
    try:
        writer.write(MetricPoints(run.started).of(without_repeated(records)))
        if job.state.is_final:
            ended = job.execution.ended if job.execution else None
            writer.finish(job.word, ended.timestamp() if ended else 0.0)
    except OSError as error:
        if kind == MLFLOW:
            raise UnreachableError(f"job {job.id.name} was not exported: {error}") from error
        raise _unwritable(job.id.name, to, error) from error
    return str(to)


def export_table(name: str, table: DataFrame, kind: str, to: str | Path) -> str:
    """Writes the tidy table of a job's numbers as csv, parquet or json, atomically; returns the path.

    Raises:
        UsageError: Parquet needs a library that is not installed.
        StorageError: The file cannot be written.
    """
    file = Path(to).expanduser()
    part = file.with_name(f".{file.name}.part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        _TABLES[kind](table, part)
        return str(part.replace(file))
    except ImportError:
        raise UsageError("parquet needs the package pyarrow", hint="pip install pyarrow") from None
    except OSError as error:
        raise _unwritable(name, file, error) from error
    finally:
        part.unlink(missing_ok=True)


def check_kind(kind: str) -> None:
    """Raises UsageError for an unknown kind of export."""
    if kind not in KINDS:
        hint = did_you_mean(kind, KINDS) or f"one of {', '.join(KINDS)}"
        raise UsageError(f"job.export: unknown target {kind!r}", hint=hint)


def exported_run(job: JobResource, labels: Labels) -> ExportedRun:
    """The facts about a job in an export."""
    started = job.execution.started if job.execution and job.execution.started else job.provisioning.created
    return ExportedRun(
        name=job.id.name,
        guid=job.output_path_segment.rpartition("/")[2],
        experiment=job.id.experiment,
        started=started.timestamp(),
        parameters={name: str(value) for name, value in labels.parameters.items()},
        tags={
            "batchai.job": str(job.id),
            "batchai.state": job.word,
            **dict.fromkeys(labels.tags, "true"),
            **({MLFLOW_NOTE: labels.note} if labels.note else {}),
        },
    )


def _unwritable(name: str, to: str | Path, error: OSError) -> StorageError:
    return StorageError(f"job {name} cannot be exported to {to}: {error.strerror or error}")


def _write_json(table: DataFrame, file: Path) -> None:
    """Writes an object per row, with all digits; NaN and infinity are strings, as in `-o json`."""
    columns = [_json_cells(table[name]) for name in table]
    rows = (dict(zip(table, cells, strict=True)) for cells in zip(*columns, strict=True))
    with file.open("w", encoding="utf-8") as stream:
        for number, row in enumerate(rows):
            stream.write((",\n " if number else "[\n ") + json.dumps(row, ensure_ascii=False))
        stream.write("\n]\n" if len(table) else "[]\n")


def _json_cells(column: Series[Any]) -> list[Any]:
    """The cells of a column; unknown values, such as a rank, are null."""
    if column.name == "value":
        return list(map(json_value, column.tolist()))
    cells = [str(time) for time in column] if column.name == "wall_time" else column.tolist()
    return [cell if is_known else None for cell, is_known in zip(cells, column.notna(), strict=True)]


_TABLES: Mapping[str, Callable[[DataFrame, Path], None]] = {
    "csv": lambda table, file: table.to_csv(file, index=False),
    "parquet": lambda table, file: table.to_parquet(file, index=False),
    "json": _write_json,
}
KINDS = (TENSORBOARD, MLFLOW, *_TABLES)
