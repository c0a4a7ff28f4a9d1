"""The backend that settings open."""

import pytest

from batchai_magics.config import Settings
from batchai_magics.errors import ConflictError
from batchai_magics.jobs.submit import ensure_defaults, next_run, open_backend
from batchai_magics.models.ids import Kind


def test_the_quota_is_that_of_the_settings(tmp_path):
    settings = Settings(home=tmp_path / "home", core_quota=3)
    backend = open_backend(settings)
    with pytest.raises(ConflictError, match="Maximum allowed: 3"):
        ensure_defaults(backend, settings)  # two nodes with two cores each
    backend.close()


def test_the_idle_time_is_that_of_the_settings(tmp_path):
    backend = open_backend(Settings(home=tmp_path / "home", idle_s=7))
    assert backend._limits.idle_s == 7
    backend.close()


@pytest.mark.slow
def test_a_further_run_gets_the_next_number(world):
    world.run("resnet")
    world.run("resnet --new")
    assert next_run(world.backend, world.experiment, "resnet") == "resnet-3"
    assert next_run(world.backend, world.experiment, "resnet-2") == "resnet-3"
    world.backend.delete(world.experiment.child(Kind.JOB, "resnet"))
    assert next_run(world.backend, world.experiment, "resnet-2") == "resnet-3"
