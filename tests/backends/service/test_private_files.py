"""Folders that are made here and at the other end of ssh, for their owner alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from batchai_magics.backends.folders import private
from batchai_magics.backends.machines import agent_files
from batchai_magics.backends.service import private_files
from batchai_magics.errors import StorageError

IMPOSSIBLE = Path("/proc/nope/home")


def test_a_folder_is_made_with_those_above_it(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b" / "c"
    private_files.make_folder(folder)
    private_files.make_folder(folder)
    assert {path.stat().st_mode & 0o777 for path in (folder, *folder.parents[:2])} == {0o700}


def test_where_nothing_can_be_made_the_attempt_ends_with_an_error() -> None:
    with pytest.raises(OSError, match="nope"):
        private_files.make_folder(IMPOSSIBLE)
    with pytest.raises(OSError, match="nope"):
        agent_files.mkdir(str(IMPOSSIBLE), 0o700, parents=True)


@pytest.mark.parametrize("setting", ["slurm.home", "BATCHAI_HOME"])
def test_a_home_that_cannot_be_made_names_its_setting(setting: str) -> None:
    with pytest.raises(StorageError, match="cannot be used") as caught:
        private.make_home(IMPOSSIBLE, setting=setting)
    assert setting in caught.value.hint
