"""A small file system of a test's own, which can be full."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import subprocess
from pathlib import Path

import pytest


class SmallDisk:
    """A file system of some megabytes and some thousand files, which can be filled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=12m,nr_inodes=3000", "none", str(folder)]
        if subprocess.run(mount, check=False, capture_output=True).returncode:
            pytest.skip("this user may not mount a small file system")

    def fill(self) -> None:
        """Takes all room that there is."""
        with (self.folder / "ballast").open("ab", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(4096))

    def fill_with_files(self) -> None:
        """Takes all files that can be created."""
        (self.folder / "files").mkdir()
        with contextlib.suppress(OSError):
            for number in itertools.count():
                (self.folder / "files" / str(number)).touch()

    def free(self) -> None:
        """Gives it back."""
        (self.folder / "ballast").unlink(missing_ok=True)
        shutil.rmtree(self.folder / "files", ignore_errors=True)

    def close(self) -> None:
        """Takes the file system away."""
        subprocess.run(["umount", "--lazy", str(self.folder)], check=True)
