"""Whether nodes can make the Python environment that a job asks for with `--with`."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from batchai_magics.cell.cell_script import FOLDER, PROGRAM
from batchai_magics.errors import CapabilityError
from batchai_magics.models.job_spec import JobSpec

_MAKING = re.compile(rf'{re.escape(PROGRAM)}" "[^"]*/{FOLDER}/(?P<digest>[0-9a-f]+)"')


def makes_environment(job: JobSpec) -> bool:
    """Whether the preparation of a job makes an environment on the nodes themselves, not in an image."""
    return _making(job) is not None and not job.container_settings


def check_maker(job: JobSpec, shares: Path, has_uv: Callable[[], bool]) -> None:
    """Checks that the preparation of a job which makes an environment finds uv, unless that is there.

    Args:
        job: The job.
        shares: The folder with the shares of all accounts, on which environments are.
        has_uv: Tells whether the machine that submits has uv; the nodes are assumed to be like it.

    Raises:
        CapabilityError: It does not.
    """
    making = _making(job)
    is_made = making and any(shares.glob(f"*/*/{FOLDER}/{making['digest']}/bin/python"))
    if is_made or has_uv():
        return
    what = "--with and the packages of a script need uv to make the environment"
    text = f"{what}, and the machine that submits has none"
    hint = "`pip install uv`, or install the packages with --prep. Nothing was submitted."
    raise CapabilityError(text, code="NotSupported", hint=hint)


def _making(job: JobSpec) -> re.Match[str] | None:
    return _MAKING.search(job.job_preparation.command_line) if job.job_preparation else None
