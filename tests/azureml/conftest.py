"""A stand-in of Azure Machine Learning, which a test's own process reaches as if it were Azure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.azureml.stand_in import AzureStandIn


@pytest.fixture
def azure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AzureStandIn]:
    """A workspace of its own, with the variables set that lead Azure's libraries to it."""
    made = AzureStandIn(tmp_path / "azure")
    for name in ("NO_PROXY", "no_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name, value in made.client_env.items():
        monkeypatch.setenv(name, value)
    yield made
    made.close()
