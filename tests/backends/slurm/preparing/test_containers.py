"""What runs containers on the nodes of Slurm; refused by name where nothing does."""

from __future__ import annotations

import pytest

from batchai_magics.backends.slurm import sbatch
from batchai_magics.errors import CapabilityError


def test_containers_are_refused_by_name_where_nothing_runs_them() -> None:
    with pytest.raises(CapabilityError, match=r"properties\.containerSettings .* no apptainer.* or podman"):
        sbatch.container_engine("", has_credentials=False, has=lambda _: False)


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


def test_a_password_for_an_image_is_refused_by_name() -> None:
    with pytest.raises(CapabilityError, match=r"imageSourceRegistry\.credentials"):
        sbatch.container_engine("podman", has_credentials=True, has=bool)
