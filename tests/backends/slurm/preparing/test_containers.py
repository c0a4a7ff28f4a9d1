"""What runs containers on the nodes of Slurm."""

from __future__ import annotations

import pytest

from batchai_magics.backends.slurm import sbatch


@pytest.mark.parametrize(
    ("configured", "there", "engine"),
    [
        ("", {"podman", "apptainer"}, ("apptainer",)),
        ("", {"podman", "enroot"}, ("enroot",)),
        ("singularity --quiet", set(), ("singularity", "--quiet")),
        ("host", {"apptainer"}, ()),
    ],
)
def test_what_was_set_or_is_there_runs_them(
    configured: str, there: set[str], engine: tuple[str, ...]
) -> None:
    assert sbatch.container_engine(configured, has_credentials=False, has=there.__contains__) == engine
