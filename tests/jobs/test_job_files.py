"""All files of a job, from any depth of its directories."""

from __future__ import annotations

import pytest

from batchai_magics.jobs import job_files
from tests.world import World

pytestmark = pytest.mark.slow
DEEP = """
import os
for _ in range(20):
    os.mkdir("d" * 250)
    os.chdir("d" * 250)
open("bottom", "w").close()
"""


def test_a_list_of_too_many_files_is_cut_off_with_a_warning(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = world.run("many", "for number in range(9): open(f'file-{number}', 'w').close()")
    every = [file.path for file in job.files()]
    assert len(every) == 12
    monkeypatch.setattr(job_files, "MAX_ENTRIES", 6)
    with pytest.warns(
        UserWarning, match="job many wrote more than 6 files and folders: the first are listed"
    ):
        assert [file.path for file in job.files()] == [*every[:2], *every[9:]]  # and the folder of the node


def test_a_folder_that_is_too_deep_to_be_read_is_told(world: World) -> None:
    job = world.run("deep", DEEP)
    assert job.exit_code == 0
    with pytest.warns(UserWarning, match=r"job deep: the folder .*dd cannot be read: File name too long"):
        assert [file.name for file in job.files()] == ["stderr.txt", "stdout.txt", "execution.log"]
