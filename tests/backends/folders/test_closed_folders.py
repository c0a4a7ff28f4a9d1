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
    "slurm": "from batchai_magics.backends.service.private_files import remove_folder as remove",
}


@pytest.mark.parametrize("backend", REMOVALS)
def test_a_folder_that_is_closed_or_read_only_is_removed(tmp_path: Path, backend: str) -> None:
    root, beside = tmp_path / "run", tmp_path / "beside"
    for folder, mode in ((root / "read-only", 0o500), (root / "closed", 0), (beside, 0o500)):
        (folder / "inside").mkdir(parents=True)
        (folder / "inside" / "file").write_text("x")
        (folder / "inside").chmod(mode)
        folder.chmod(mode)
    (root / "link").symlink_to(beside)
    program = [
        sys.executable,
        "-c",
        f"import pathlib, sys; {REMOVALS[backend]}; remove(pathlib.Path(sys.argv[1]))",
    ]
    subprocess.run([*(_AS_ANYBODY if os.geteuid() == 0 else []), *program, str(root)], check=True)
    assert not root.exists()
    assert beside.stat().st_mode & 0o777 == 0o500
    beside.chmod(0o700)
    (beside / "inside").chmod(0o700)
