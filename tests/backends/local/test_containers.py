"""Jobs in real containers: the image's files, the job's folders and variables, and nothing left behind."""

from __future__ import annotations

import pytest

from batchai_magics.backends.node import containers
from tests.backends.local.boxes import IMAGE, submit
from tests.world import PATIENCE_S, World


@pytest.mark.slow
def test_without_an_engine_the_job_runs_on_the_host_and_says_so(world: World, monkeypatch) -> None:
    monkeypatch.setattr(containers, "ENGINES", ())
    job = submit(world, "echo on the host").wait(PATIENCE_S)
    assert job.log() == "on the host\n"
    assert f"warning: no docker, podman or apptainer works here: image {IMAGE}" in job.log(
        file="execution.log"
    )
