"""A live export of a run's numbers: to TensorBoard or MLflow, while it runs."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from batchai_magics.backends.folders.logged_parameters import LoggedParameters
from batchai_magics.metrics.reading.event_files import EventFileWriter
from batchai_magics.models.runs.scalar_export import (
    ExportedRun,
    ExportKind,
    ExportTarget,
    ScalarPoint,
    ScalarWriter,
)
from batchai_magics.records.mlflow_runs import MlflowRun

MAX_POINTS = 200_000  # that wait for a target which does not respond
FLUSH_S = {ExportKind.TENSORBOARD: 1.0, ExportKind.MLFLOW: 3.0}
RETRY_S = 20.0


class LiveExport:
    """One target of a run; a target that fails is tried again, and never fails the run."""

    def __init__(
        self,
        target: ExportTarget,
        run: ExportedRun,
        folder: Path,
        *,
        logged: Path,
        env: Mapping[str, str],
    ) -> None:
        """`folder` is that of the logs, `logged` the file of the parameters that the run logs."""
        self._target, self._writer = target, _writer(target, run, folder, env)
        self._parameters = LoggedParameters(logged)
        self._points: list[ScalarPoint] = []
        self._dropped, self._problem, self._due_s = 0, "", 0.0

    def add(self, points: Iterable[ScalarPoint]) -> None:
        """Adds points; the oldest ones are dropped if too many wait."""
        self._points += points
        surplus = len(self._points) - MAX_POINTS
        if surplus > 0:
            del self._points[:surplus]
            self._dropped += surplus

    def flush(self, *, is_last: bool = False) -> None:
        """Writes what waits, if it is due."""
        now_s = time.monotonic()
        if not self._points or (now_s < self._due_s and not is_last):
            return
        found = self._parameters.changed()
        self._writer.add_parameters({name: str(value) for name, value in found.items()})
        try:
            self._writer.write(self._points)
        except OSError as error:
            self._problem, self._due_s = error.strerror or str(error), now_s + RETRY_S
            return
        self._points, self._problem = [], ""
        self._due_s = time.monotonic() + FLUSH_S[self._target.kind]

    def close(self) -> str:
        """Writes the rest; returns why the export is incomplete, empty if it is not."""
        self.flush(is_last=True)
        if self._target.kind is ExportKind.TENSORBOARD:
            self._writer.finish("", 0.0)
        lost = self._dropped + len(self._points)
        reason = self._problem or "the target did not respond for too long"
        return f"export to {self._target}: {lost} numbers are missing: {reason}" if lost else ""


def _writer(target: ExportTarget, run: ExportedRun, folder: Path, env: Mapping[str, str]) -> ScalarWriter:
    if target.kind is ExportKind.MLFLOW:
        return MlflowRun(target.location, run, env)
    return EventFileWriter(folder / Path(target.location).expanduser(), run)
