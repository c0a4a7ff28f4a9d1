"""Where the working directories of a run are on this machine, and what removes them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from batchai_magics.backends.base import CLEANING
from batchai_magics.models.job_execution import WORKDIR
from tests.default_resources import ensure_defaults
from tests.world import World

pytestmark = pytest.mark.slow
SAVE = "import os; open('model.pt', 'w').write('x'); print(os.getcwd())"


def test_a_cell_writes_straight_into_the_folder_of_its_run_which_cleaning_counts_and_removes(
    world: World,
) -> None:
    job = world.run("secret", SAVE)
    folder = Path(job.log().strip())
    assert folder == world.home / "jobs" / world.guid(job) / "workdir" / job.ranks()[0].node
    assert [file.path for file in job.files(WORKDIR, folder.name)] == [f"{folder.name}/model.pt"]
    assert job.download(f"{folder.name}/model.pt", world.home.parent, directory_id=WORKDIR).read_text() == "x"
    cleaning = CLEANING.of(world.backend)
    before = {part.name: part.size_bytes for part in cleaning.stored_items()}
    (folder / "more").write_bytes(bytes(1 << 20))
    after = {part.name: part.size_bytes for part in cleaning.stored_items()}
    assert after["jobs"] - before["jobs"] == 1 << 20
    cleaning.clean()
    assert not folder.exists()
    ensure_defaults(world.backend, world.settings)  # the world's end looks for them


def test_folders_that_are_deeper_than_a_recursion_or_a_path_are_counted_and_deleted_with_their_job(
    world: World,
) -> None:
    name = "d" * 60
    job = world.run("deep", f"import os\nfor _ in range(1500): os.mkdir('{name}'); os.chdir('{name}')")
    folder = world.home / "jobs" / world.guid(job)
    try:
        assert CLEANING.of(world.backend).stored_items()
        job.delete()
        assert not folder.exists()
    finally:  # pytest itself could not remove it
        subprocess.run(["rm", "-rf", folder], check=True)
