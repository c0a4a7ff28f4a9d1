"""The variables of whoever submits a job that reach it are the same on every backend."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from batchai_magics.backends.node.job_environment import inherited
from batchai_magics.models.states import ExecutionState
from tests.backends.local.boxes import IMAGE
from tests.contract.place import Place

pytestmark = [pytest.mark.slow, pytest.mark.decided_by("nodes")]
TUNING = {
    "NCCL_DEBUG": "WARN",
    "NCCL_SOCKET_IFNAME": "eth0",
    "UCX_TLS": "tcp",
    "FI_LOG_LEVEL": "warn",
    "OMPI_MCA_btl": "self",
    "OMP_WAIT_POLICY": "passive",
}
OTHERS = {"MY_TOKEN": "hush", "AWS_SECRET_ACCESS_KEY": "hush", "OMPI_COMM_WORLD_RANK": "7", "PMIX_RANK": "7"}


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


GIVEN = {"CUDA_VISIBLE_DEVICES": "", "MASTER_PORT": "29511", "OMP_NUM_THREADS": "3", "MY_OWN": "mine"}
SHOWN = "import os, sys\nfor name in sys.argv[1:]: print(name, os.environ.get(name, 'missing'), sep='=')"


def test_variables_that_the_job_gives_win(place: Place) -> None:
    options = " ".join(f"--env {name}={value}" for name, value in GIVEN.items())
    job = place.run_cell(f"j --toolkit pytorch {options} --args '{' '.join(GIVEN)}'", SHOWN)
    assert dict(line.split("=") for line in job.log().splitlines()) == GIVEN


@pytest.mark.needs("hidden_secrets")
def test_secrets_that_the_job_gives_win(place: Place) -> None:
    values = {"MASTER_PORT": "not-a-port", "OMP_NUM_THREADS": "not-a-number"}
    wanted = [f'test "${name}" = {value}' for name, value in values.items()]
    secrets = [{"name": name, "value": value} for name, value in values.items()]
    script = {
        "pythonScriptFilePath": place.put("t.py", f"import os; assert not os.system({' && '.join(wanted)!r})")
    }
    job = place.run(secrets=secrets, customToolkitSettings=None, pyTorchSettings=script)
    assert job.state is ExecutionState.SUCCEEDED, place.log(job.id, "stderr.txt")


PASSWORD = os.urandom(8).hex()
PASSED = {
    "https_proxy": f"http://me:{PASSWORD}@proxy:3128",
    "NO_PROXY": "localhost",
    "REQUESTS_CA_BUNDLE": "/etc/ca.pem",
    "SSL_CERT_FILE": "/etc/ca.pem",
    "HF_HOME": "/data/hf",
    "TORCH_HOME": "/data/torch",
    "XDG_CACHE_HOME": "/data/cache",
    "TZ": "Europe/Berlin",
    "WANDB_PROJECT": "digits",
}
MASKED_PROXY = PASSED["https_proxy"].replace(f"me:{PASSWORD}", "*" * len(f"me:{PASSWORD}"))
SECRETS = {"HF_TOKEN": "hush", "WANDB_API_KEY": "hush", "TORCH_URL_PASSWORD": "hush"}


@pytest.mark.decided_by("engine")
@pytest.mark.needs("own_environment")
def test_what_a_run_needs_or_is_tuned_by_reaches_it_and_its_preparation_and_nothing_else(
    place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    others = {**SECRETS, **OTHERS}
    for name, value in {**PASSED, **TUNING, **others}.items():
        monkeypatch.setenv(name, value)
    job = place.run_cell("j --prep env", "import os\nfor item in os.environ.items(): print(*item, sep='=')")
    for file in ("stdout.txt", "stdout-job_prep.txt"):
        reached = dict(line.split("=", 1) for line in job.log(file=file).splitlines() if "=" in line)
        expected = {**PASSED, **TUNING, "https_proxy": MASKED_PROXY}
        assert {name: reached.get(name) for name in expected} == expected
        assert not [name for name, value in others.items() if reached.get(name) == value]
    left = subprocess.run(["grep", "-rl", PASSWORD, tmp_path], capture_output=True, text=True, check=False)
    logs = ("stdout.txt", "stdout-job_prep.txt")
    assert [file for file in left.stdout.splitlines() if not file.endswith(logs)] == []


@pytest.mark.sample
@pytest.mark.needs("own_environment")
@pytest.mark.needs("hidden_secrets")
def test_the_password_of_a_proxy_is_masked_wherever_it_is_printed(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", PASSED["https_proxy"])
    script = (
        "import os, sys\nprint(os.environ['https_proxy'])\nsys.exit('no way to ' + os.environ['https_proxy'])"
    )
    job = place.run_cell("j --nodes 2 --prep env", script)
    preparations = [file.path for file in job.files("stdouterr") if file.path.startswith("stdout-job_prep")]
    logs = {name: job.log(file=name) for name in ("stderr.txt", *preparations)}
    assert preparations
    assert not [text for text in (job.log(), str(job.error), *logs.values()) if PASSWORD in text]
    assert [MASKED_PROXY in logs[name] for name in preparations] == [True] * len(preparations)
    assert {*job.log().splitlines()} == {MASKED_PROXY}  # the first rank that fails ends the other


def test_what_matches_a_pattern_is_inherited_unless_it_is_a_secret_or_the_submitters_own() -> None:
    own = {"PMI_RANK": "1", "SLURM_JOB_ID": "2", "RANK": "3", "TMPDIR": "/t", "BATCHAI_HOME": "/h"}
    secrets = {"DATA_TOKEN": "hush", "DATA_LOGIN": "ghp_0123456789abcdefghijklmnopqrstuvwxyz"}
    environ = {"DATA_DIR": "/data", "DATABASE": "d", "OTHER": "o", **own, **secrets}
    assert inherited(environ, "DATA_*, MY_?") == {"DATA_DIR": "/data"}
    assert inherited(environ, "*") == {"DATA_DIR": "/data", "DATABASE": "d", "OTHER": "o"}


def test_a_rank_s_identity_is_not_inherited() -> None:
    assert inherited({**TUNING, **OTHERS}) == TUNING
