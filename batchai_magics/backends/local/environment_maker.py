"""Whether this machine can make the Python environment that a job asks for with `--with`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from batchai_magics.cell.script_environment import FOLDER, PROGRAM
from batchai_magics.errors import CapabilityError
from batchai_magics.models.job_spec import JobSpec

_MAKING = re.compile(rf'{re.escape(PROGRAM)}" "[^"]*/{FOLDER}/(?P<digest>[0-9a-f]+)"')


def check_maker(job: JobSpec, shares: Path) -> None:
    """Checks that the preparation of a job finds uv, unless the environment is there or an image is used.

    Raises:
        CapabilityError: It does not.
    """
    line = job.job_preparation.command_line if job.job_preparation else ""
    making = _MAKING.search(line)
    if making is None or job.container_settings:
        return
    is_made = any(shares.glob(f"*/*/{FOLDER}/{making['digest']}/bin/python"))
    if is_made or _has_uv():
        return
    text = "--with and the packages of a script need uv to make the environment, and this machine has none"
    hint = "`pip install uv`, or install the packages with --prep. Nothing was submitted."
    raise CapabilityError(text, code="NotSupported", hint=hint)


def _has_uv() -> bool:
    """Whether `uv`, or the module of the `python` that jobs find, is there."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    if shutil.which("uv", path=path):
        return True
    python = shutil.which("python", path=path) or sys.executable
    return subprocess.run([python, "-c", "import uv"], capture_output=True, check=False).returncode == 0
