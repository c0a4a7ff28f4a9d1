"""What exports of a run's metrics share: their points, their targets, and the protocol of their writers.

Standard library only: the program that watches a run exports them while it is in progress.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

FORM = "write it as tensorboard=DIR or mlflow=http://HOST:PORT"


class ScalarPoint(NamedTuple):
    """A number of a run at a step; `time` is in seconds since 1970, `rank` None if it is unknown."""

    name: str
    value: float
    step: int
    time: float
    rank: int | None = None


class ExportedRun(NamedTuple):
    """The run that is exported; `guid` identifies it, so that a second export replaces the first."""

    name: str
    guid: str
    experiment: str
    started: float
    parameters: Mapping[str, str] = MappingProxyType({})
    tags: Mapping[str, str] = MappingProxyType({})


class ScalarWriter(Protocol):
    """Writes the points of one run to a target; every method may raise OSError."""

    def add_parameters(self, parameters: Mapping[str, str]) -> None:
        """Adds parameters of the run, which are written with the next points."""

    def write(self, points: Iterable[ScalarPoint]) -> None:
        """Writes further points, so that a reader of the target sees them."""

    def finish(self, state: str, ended: float) -> None:
        """Completes the export: `state` is succeeded, failed or cancelled."""


class ExportKind(enum.Enum):
    """The programs to which a run in progress is exported."""

    TENSORBOARD = "tensorboard"
    MLFLOW = "mlflow"


class ExportTarget(NamedTuple):
    """A place to export to: the folder of TensorBoard's event files, or the URI of an MLflow server."""

    kind: ExportKind
    location: str

    @classmethod
    def parse(cls, text: str) -> ExportTarget:
        """Parses `tensorboard=DIR` or `mlflow=URI`.

        Raises:
            ValueError: It is invalid; the message explains the mistake.
        """
        name, sign, location = text.strip().partition("=")
        kinds = [kind for kind in ExportKind if kind.value == name.strip().lower()]
        if not sign or not kinds or not location.strip():
            raise ValueError(f"{text!r} is no export target; {FORM}")
        target = cls(kinds[0], location.strip())
        if target.kind is ExportKind.MLFLOW:
            check_tracking_uri(target.location)
        return target

    def below(self, folder: Path) -> ExportTarget:
        """The target with the absolute path of a relative folder."""
        if self.kind is not ExportKind.TENSORBOARD:
            return self
        return self._replace(location=str(folder / Path(self.location).expanduser()))

    def __str__(self) -> str:
        return f"{self.kind.value}={self.location}"


def export_targets(texts: Iterable[str]) -> tuple[ExportTarget, ...]:
    """Parses targets, several in one text separated by commas; raises ValueError for an invalid one."""
    parts = (part for text in texts for part in re.split(r",(?=\s*\w+=)", text))
    return tuple(dict.fromkeys(ExportTarget.parse(part) for part in parts))


def check_tracking_uri(uri: str) -> None:
    """Raises ValueError unless a URI is http(s) and contains no credentials."""
    try:
        parts = urlsplit(uri)
        is_http = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_http = False
    if not is_http:
        raise ValueError("the address of an MLflow server starts with http:// or https://")
    if parts.username or parts.password:
        names = "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
        raise ValueError(f"the address of an MLflow server must not contain a password: set {names}")


def metric_of_rank(point: ScalarPoint) -> str:
    """The name of a point's metric where ranks are told apart by name only: rank 0 has the plain one."""
    return f"{point.name}/rank-{point.rank}" if point.rank else point.name
