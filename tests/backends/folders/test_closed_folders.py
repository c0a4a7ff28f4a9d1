"""Folders that a script has closed for its owner too: they go with their job all the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
# Root passes any mode, unless it gives up the right to.
_WITHOUT = "-dac_override,-dac_read_search"
_AS_ANYBODY = ["setpriv", f"--bounding-set={_WITHOUT}", f"--inh-caps={_WITHOUT}"]
REMOVALS = {
    "local": "from batchai_magics.backends.local.unmanaged_mounts import remove",
    "slurm": "from batchai_magics.backends.folders.private_files import remove_folder as remove",
}


def remove_as_anybody(backend: str, folder: Path) -> None:
    """Removes the folder without the rights of root."""
    program = f"import pathlib, sys; {REMOVALS[backend]}; remove(pathlib.Path(sys.argv[1]))"
    who = _AS_ANYBODY if os.geteuid() == 0 else []
    subprocess.run([*who, sys.executable, "-c", program, str(folder)], check=True)


@pytest.mark.parametrize("backend", REMOVALS)
def test_a_folder_that_is_closed_or_read_only_is_removed(tmp_path, backend):
    root, beside = tmp_path / "run", tmp_path / "beside"
    for folder, mode in ((root / "read-only", 0o500), (root / "closed", 0), (beside, 0o500)):
        (folder / "inside").mkdir(parents=True)
        (folder / "inside" / "file").write_text("x")
        (folder / "inside").chmod(mode)
        folder.chmod(mode)
    (root / "link").symlink_to(beside)
    remove_as_anybody(backend, root)
    assert not root.exists()
    assert beside.stat().st_mode & 0o777 == 0o500
    beside.chmod(0o700)
    (beside / "inside").chmod(0o700)


@pytest.mark.parametrize("depth", [1500, 3000], ids=["recursion", "path"])
def test_a_closed_folder_deeper_than_a_recursion_or_a_path_is_removed(tmp_path, depth):
    deep = f"import os\nfor _ in range({depth}):\n    os.mkdir('d')\n    os.chdir('d')\n"
    closed = "os.makedirs('a/b')\nos.chmod('a/b', 0)\nos.chmod('a', 0)"
    root = tmp_path / "run"
    root.mkdir()
    subprocess.run([sys.executable, "-c", deep + closed], cwd=root, check=True)
    try:
        remove_as_anybody("slurm", root)
        assert not root.exists()
    finally:  # pytest itself could not remove it
        subprocess.run(["rm", "-rf", root], check=True)
