"""Exports the metrics of a job to a file, to TensorBoard's files or to an MLflow server."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from batchai_magics.backends.service.log_records import MetricPoints
from batchai_magics.errors import StorageError, UnreachableError, UsageError, did_you_mean
from batchai_magics.metrics.reading.event_files import EventFileWriter
from batchai_magics.metrics.record import Record
from batchai_magics.models.resources import JobResource
from batchai_magics.models.runs.scalar_export import ExportedRun, ScalarWriter, check_tracking_uri
from batchai_magics.records.mlflow_runs import MlflowRun

if TYPE_CHECKING:
    from pandas import DataFrame

TENSORBOARD, MLFLOW = "tensorboard", "mlflow"


def export_points(job: JobResource, records: Iterable[Record], kind: str, to: str | Path) -> str:
    """Exports records to TensorBoard's files in a folder or to an MLflow server; returns the target.

    Raises:
        UsageError: The address of the server is invalid.
        StorageError: The files cannot be written.
        UnreachableError: The server refuses the export, or does not respond.
    """
    run = exported_run(job)
    writer = _writer(kind, to, run)
    try:
        writer.write(MetricPoints(run.started).of(records))
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
        raise UsageError(f"job.export: there is no export to {kind!r}", hint=hint)


def exported_run(job: JobResource) -> ExportedRun:
    """What an export says about a job."""
    started = job.execution.started if job.execution and job.execution.started else job.provisioning.created
    return ExportedRun(
        name=job.id.name,
        guid=job.output_path_segment.rpartition("/")[2],
        experiment=job.id.experiment,
        started=started.timestamp(),
        tags={"batchai.job": str(job.id), "batchai.state": job.word},
    )


def _writer(kind: str, to: str | Path, run: ExportedRun) -> ScalarWriter:
    if kind == TENSORBOARD:
        return EventFileWriter(Path(to).expanduser(), run)
    try:
        check_tracking_uri(str(to))
    except ValueError as error:
        raise UsageError(f"job.export: {error}") from None
    return MlflowRun(str(to), run, env=os.environ)


def _unwritable(name: str, to: str | Path, error: OSError) -> StorageError:
    return StorageError(f"job {name} cannot be exported to {to}: {error.strerror or error}")


def _write_json(table: DataFrame, file: Path) -> None:
    table.to_json(file, orient="records", date_format="iso", indent=1)


_TABLES: Mapping[str, Callable[[DataFrame, Path], None]] = {
    "csv": lambda table, file: table.to_csv(file, index=False),
    "parquet": lambda table, file: table.to_parquet(file, index=False),
    "json": _write_json,
}
KINDS = (TENSORBOARD, MLFLOW, *_TABLES)
