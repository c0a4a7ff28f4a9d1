"""Jobs whose cost would grow with a number in their description: refused before anything is planned."""

from __future__ import annotations

import pytest

from batchai_magics.errors import BatchAIError, NotFoundError
from batchai_magics.launch import planning
from tests.contract.place import Place

DOUBLING = [
    {"name": f"A{number}", "value": f"$A{number - 1}$A{number - 1}" if number else "xx"}
    for number in range(60)
]


@pytest.mark.slow
def test_a_job_that_is_too_large_is_refused_by_name_and_not_planned(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(planning, "plan")
    ranks = {"commandLine": "true", "processCount": 2_000_000}
    for fields, setting in (
        ({"customToolkitSettings": None, "customMpiSettings": ranks}, "max_processes"),
        ({"environmentVariables": DOUBLING}, "max_environment_kib"),
    ):
        with pytest.raises(BatchAIError, match=setting):
            place.start(**fields)
        with pytest.raises(NotFoundError):
            place.backend.show(place.job())
