"""A stand-in of Azure Machine Learning, which a test's own process reaches as if it were Azure."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from batchai_magics.backends.azureml.azureml_backend import AzureMLBackend
from batchai_magics.backends.azureml.connection import shared_sign_in
from batchai_magics.backends.azureml.job_logs import ReadIntervals
from batchai_magics.user_ports import PROMPT
from tests.azureml.stand_in import AzureStandIn


@pytest.fixture
def azure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AzureStandIn]:
    """A workspace whose jobs do what the test says."""
    with reached(AzureStandIn(tmp_path / "azure"), monkeypatch) as made:
        yield made


@pytest.fixture
def running_azure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AzureStandIn]:
    """A workspace whose jobs run in processes."""
    look_often(monkeypatch)
    with reached(AzureStandIn(tmp_path / "azure", runs_jobs=True), monkeypatch) as made:
        yield made


@contextlib.contextmanager
def reached(made: AzureStandIn, monkeypatch: pytest.MonkeyPatch) -> Iterator[AzureStandIn]:
    """Sets the variables that lead Azure's libraries to a stand-in, which is closed at the end."""
    for name in ("NO_PROXY", "no_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name, value in made.client_env.items():
        monkeypatch.setenv(name, value)
    shared_sign_in.cache_clear()
    monkeypatch.setattr(PROMPT, "_make", lambda: None)  # a code is awaited for minutes
    with contextlib.closing(made):
        yield made


def look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has the backend ask for states and logs many times a second, as the stand-in counts no requests."""
    often = ReadIntervals(
        requests_per_s=30.0, log=(0.05, 0.5), listing=(0.1, 0.5), telemetry=0.0, open_job=0.1, cluster=0.1
    )
    monkeypatch.setattr(AzureMLBackend, "intervals", often)
