"""Jobs whose cost would grow with a number in their description: refused before anything is planned."""

from __future__ import annotations

import pytest

from batchai_magics.errors import BatchAIError, NotFoundError
from batchai_magics.launch import planning
from batchai_magics.models.resource_ids import Kind
from tests.contract.place import Place, manual

pytestmark = [pytest.mark.slow, pytest.mark.decided_by("service")]
DOUBLING = [
    {"name": f"A{number}", "value": f"$A{number - 1}$A{number - 1}" if number else "xx"}
    for number in range(60)
]

DOUBLED = " ".join(f"--env {each['name']}={each['value']}" for each in DOUBLING)


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


@pytest.mark.needs("empty_clusters")
def test_a_job_is_bounded_where_no_cluster_says_how_many_nodes_there_are(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(planning, "plan")
    empty = place.on(place.make_cluster("empty", scale=manual(0)))
    workers = {"pythonScriptFilePath": "t.py", "workerCount": 2**31 - 1}
    for fields in (
        {"nodeCount": 2**31 - 1},
        {"customToolkitSettings": None, "tensorFlowSettings": workers},
    ):
        with pytest.raises(BatchAIError, match="see the setting max_"):
            place.start(**fields, **empty)


def test_nothing_is_written_for_a_job_that_is_too_large(place: Place) -> None:
    before = stored_files(place)
    for line, reason in (
        ("--processes 2000000", "max_processes"),
        ("--nodes 9", "9 nodes were requested"),
        (DOUBLED, "max_environment_kib"),
    ):
        with pytest.raises(BatchAIError, match=reason):
            place.submit(f"big {line} --experiment unmade")
        assert stored_files(place) == before
        assert "unmade" not in place.backend.names(place.workspace, Kind.EXPERIMENT)


def stored_files(place: Place, folder: str = "") -> list[str]:
    """The files on the share of the place; none without one."""
    storage = place.backend.storage
    if storage is None or place.share not in storage.shares():
        return []
    entries = storage.list(place.share, folder)
    inside = [path for entry in entries if entry.is_directory for path in stored_files(place, entry.path)]
    return [*(entry.path for entry in entries if entry.is_file), *inside]
