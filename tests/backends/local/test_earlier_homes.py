"""What earlier versions did not write down is made again, as it would be written now."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from batchai_magics.backends.local import earlier_homes
from batchai_magics.backends.local.state import job_table
from batchai_magics.models.resource_ids import ResourceId
from tests.backends.local.still import LOGS, Still
from tests.contract.place import MOUNTED

SETUP = {"setupTask": {**LOGS, "environmentVariables": [{"name": "A", "value": "b"}]}}


@pytest.fixture(autouse=True)
def configured(still: Still, monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings are those of the home."""
    monkeypatch.setenv("BATCHAI_HOME", str(still.home))


def written(folder: Path) -> dict[str, str]:
    """The files and links of a folder, but for the copy of the database's rows."""
    files = {str(each.relative_to(folder)): each for each in sorted(folder.rglob("*"))}
    return {
        name: str(each.readlink()) if each.is_symlink() else each.read_text()
        for name, each in files.items()
        if (each.is_symlink() or each.is_file()) and name != "job.json"
    }


def plans_again(still: Still, job: ResourceId) -> tuple[dict[str, str], dict[str, str]]:
    """What is in the folder of a queued job, and what is after it was lost and made again."""
    guid = still.state(job)["guid"]
    folder = still.layout.job(guid).root
    before = written(folder)
    shutil.rmtree(folder)
    with still.store.read() as db:
        run = job_table.find_open(db, guid=guid)
    assert run
    earlier_homes.write_submitted(still.store, still.layout, run)
    return before, written(folder)


def test_the_plans_of_a_queued_job_are_those_of_its_creation(still: Still) -> None:
    still.cluster()
    preparation = {"commandLine": "make data"}
    job = still.job(count=2, jobPreparation=preparation, mountVolumes={}, stdOutErrPathPrefix=MOUNTED)
    before, after = plans_again(still, job)
    assert "make data" in str(before)
    del before["environment.json"]  # the submitter's, which is not kept
    assert after == before


def test_a_queued_job_of_an_earlier_version_gets_its_nodes(still: Still) -> None:
    still.cluster()
    still.prepare()
    job = still.job()
    layout = still.layout.job(still.state(job)["guid"])
    shutil.rmtree(layout.root)
    still.schedule()
    assert still.assigned() == [job.name]
    assert '"true"' in layout.plan.read_text()


def test_the_setup_of_nodes_is_that_of_their_clusters_creation(still: Still) -> None:
    cluster = still.cluster(nodeSetup=SETUP)
    (guid,) = still.rows("SELECT guid FROM cluster WHERE key = ?", cluster.key)[0]
    file = still.layout.cluster_setup(guid)
    before = file.read_text()
    assert '"A"' in before.replace("\\", "")
    file.unlink()
    earlier_homes.write_setup(still.store, still.layout, guid)
    assert file.read_text() == before
