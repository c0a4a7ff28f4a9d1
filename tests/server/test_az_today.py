"""The genuine `az batchai` of today (azure-cli 2.91), with what `batchai serve az-config` writes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S
from tests.server.clients import python_of
from tests.server.process import started

pytestmark = pytest.mark.slow
LINES = (
    "batchai workspace create -g az -n ws -l eastus",
    "batchai cluster create -g az -w ws -n cl -s STANDARD_D1 -t 1 -u demo -p hush12345",
    "batchai cluster list -g az -w ws --query [].name -o tsv",
)


def test_it_signs_in_at_a_server_with_its_own_authority_on_any_port(tmp_path: Path) -> None:
    az = f"{python_of('az291')} -W ignore -m azure.cli"
    with started(tmp_path / "home", "--tls", "self"):
        write = [sys.executable, "-m", "batchai_magics.cli", "serve", "az-config", str(tmp_path / "az")]
        env = {**os.environ, "BATCHAI_HOME": str(tmp_path / "home")}
        configured = subprocess.run(write, env=env, capture_output=True, text=True, check=True).stdout
        script = "\n".join(["set -e", configured, *(f"{az} {line}" for line in LINES)])
        clean = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
        done = subprocess.run(
            ["bash", "-c", script], env=clean, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "cl"
