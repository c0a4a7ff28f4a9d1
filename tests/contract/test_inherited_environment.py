"""The variables of whoever submits a job that reach it are the same on every backend."""

from __future__ import annotations

import pytest

from batchai_magics.backends.node.job_environment import inherited
from tests.backends.local.boxes import IMAGE
from tests.contract.place import Place

pytestmark = pytest.mark.slow
TUNING = {
    "NCCL_DEBUG": "WARN",
    "NCCL_SOCKET_IFNAME": "eth0",
    "UCX_TLS": "tcp",
    "FI_LOG_LEVEL": "warn",
    "OMPI_MCA_btl": "self",
    "OMP_WAIT_POLICY": "passive",
}
OTHERS = {"MY_TOKEN": "hush", "AWS_SECRET_ACCESS_KEY": "hush", "OMPI_COMM_WORLD_RANK": "7", "PMIX_RANK": "7"}


@pytest.mark.needs("own_environment")
def test_what_tunes_networks_and_threads_reaches_a_job_and_nothing_else(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**TUNING, **OTHERS}.items():
        monkeypatch.setenv(name, value)
    job = place.run("env")
    lines = place.log(job.id).decode().splitlines()
    reached = dict(line.split("=", 1) for line in lines if "=" in line)
    assert {name: reached.get(name) for name in TUNING} == TUNING
    assert not {name for name in OTHERS if name in reached}


@pytest.mark.needs("container_engine")
@pytest.mark.needs("containers")
def test_what_tunes_networks_and_threads_reaches_a_container_and_nothing_else(
    place: Place, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_the_image = {"CUDA_HOME": "/usr/local/cuda-of-the-host", "VIRTUAL_ENV": "/of-the-host"}
    for name, value in {**TUNING, **OTHERS, **of_the_image}.items():
        monkeypatch.setenv(name, value)
    own = [{"name": "COLOUR", "value": "red and blue"}]
    image = {"imageSourceRegistry": {"image": IMAGE}}
    job = place.run("env", environmentVariables=own, containerSettings=image)
    lines = place.log(job.id).decode().splitlines()
    reached = dict(line.split("=", 1) for line in lines if "=" in line)
    expected = {**TUNING, "COLOUR": "red and blue"}
    assert {name: reached.get(name) for name in expected} == expected, place.log(job.id, "stderr.txt")
    assert not {name for name in {**OTHERS, **of_the_image} if name in reached}


def test_a_rank_s_identity_is_not_inherited() -> None:
    assert inherited({**TUNING, **OTHERS}) == TUNING
