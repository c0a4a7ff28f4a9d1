"""A stand-in of Azure Machine Learning, which a test's own process reaches as if it were Azure."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from batchai_magics.backends.azureml import azureml_backend, job_logs, run_records
from batchai_magics.backends.azureml.connection import shared_sign_in
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
    monkeypatch.setattr(azureml_backend, "_JOB_S", 0.1)
    monkeypatch.setattr(azureml_backend, "_CLUSTER_S", 0.1)
    monkeypatch.setattr(job_logs, "REQUESTS_PER_S", 30.0)
    monkeypatch.setattr(job_logs, "_MIN_DELAY_S", 0.05)
    monkeypatch.setattr(job_logs, "_MAX_DELAY_S", 0.5)
    monkeypatch.setattr(job_logs, "_MIN_LISTING_S", 0.1)
    monkeypatch.setattr(job_logs, "_MAX_LISTING_S", 0.5)
    monkeypatch.setattr(run_records, "_PERIOD_S", 0.0)
