"""The genuine `az batchai`: of 2019 (azure-cli-batchai 0.4.10), through a whole workflow, and of today."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from batchai_magics.config import Settings
from batchai_magics.server import az_config
from batchai_magics.server.server_home import ServerHome
from tests.patience import PATIENCE_S
from tests.server.clients import drive, python_of
from tests.server.process import Process, started
from tests.server.running import TOKEN, Running
from tests.world import until

pytestmark = pytest.mark.slow
IN_EX = "-g az -w ws -e ex"
SLEEPS = {"customToolkitSettings": {"commandLine": "sleep 1000"}}


@dataclass(frozen=True)
class AzOutput:
    """What a line of `az` wrote."""

    line: str
    code: int
    out: str
    error: str

    @property
    def data(self) -> object:
        return json.loads(self.out)


def az(server: Running, folder: Path, *lines: str) -> list[AzOutput]:
    """What each line gave, with the configuration that `batchai serve az-config` writes."""
    return said_with(az_config.write(folder / "azure", server.url, TOKEN, server.world.settings), *lines)


def said_with(exports: list[str], *lines: str) -> list[AzOutput]:
    """What each line gave in a shell that has these variables."""
    env = dict(line.removeprefix("export ").split("=", 1) for line in exports)
    told = drive("az", "drive_az.py", told=[line.split() for line in lines], **env)
    return [AzOutput(" ".join(item.pop("line")), **item) for item in told]


def job_file(folder: Path, name: str, settings: dict) -> Path:
    properties = {"nodeCount": 1, "stdOutErrPathPrefix": "$AZ_BATCHAI_MOUNT_ROOT/autoafs", **settings}
    file = folder / f"{name}.json"
    file.write_text(json.dumps({"properties": properties}))
    return file


def printing(server: Running | Process, folder: Path, **more: object) -> dict:
    """A job that goes on when the line before was read: `az` reads no more once it has seen a job's end."""
    python_of("az")  # without it the test is skipped, before a thread asks a server that will be gone
    before = ranges_read(server, **more)

    def watch() -> None:
        for number, line in enumerate(("one", "two"), 1):
            until(lambda number=number: ranges_read(server, **more) >= before + number)
            (folder / f"{line}-is-read").touch()

    threading.Thread(target=watch, daemon=True).start()
    wait = f"until [ -e {folder}/{{}}-is-read ]; do sleep 0.05; done"
    command = f"echo one; {wait.format('one')}; echo two; {wait.format('two')}"
    return {"customToolkitSettings": {"commandLine": command}}


def ranges_read(server: Running | Process, **more: object) -> int:
    """How many ranges of files the server has sent."""
    told = server.ask("GET", "/metrics", **more).text
    found = re.search(r'^batchai_requests_total\{method="GET",status="206"\} (\S+)', told, re.MULTILINE)
    return int(float(found[1])) if found else 0


@pytest.fixture
def lines(server: Running, tmp_path: Path) -> dict[str, AzOutput]:
    """What the lines of a tutorial gave, by their first words after `batchai`."""
    folder = tmp_path
    prints = job_file(folder, "prints", printing(server, folder))
    said = az(
        server,
        folder,
        "batchai workspace create -g az -n ws -l eastus",
        "batchai cluster create -g az -w ws -n cl -s STANDARD_D1 -t 1 -u demo -p hush",
        "batchai cluster show -g az -w ws -n cl -o table",
        "batchai experiment create -g az -w ws -n ex",
        f"batchai job create {IN_EX} -n prints -c cl -f {prints}",
        f"batchai job file stream {IN_EX} -j prints -f stdout.txt",
        f"batchai job wait {IN_EX} -n prints",
        f"batchai job file list {IN_EX} -j prints -o table",
        f"batchai job create {IN_EX} -n sleeps -c cl -f {job_file(folder, 'sleeps', SLEEPS)}",
        f"batchai job node list {IN_EX} -j sleeps",
        f"batchai job terminate {IN_EX} -n sleeps -y",
        f"batchai job list {IN_EX} -o table",
        f"batchai job delete {IN_EX} -n prints -y",
        f"batchai job show {IN_EX} -n prints",
        "batchai cluster resize -g az -w ws -n cl -t 2",
        "batchai cluster node list -g az -w ws -c cl",
        "batchai list-usages -l eastus",
        "batchai workspace delete -g az -n ws -y",
        "batchai workspace list -g az",
    )
    return {
        " ".join(word for word in item.line.split(" -")[0].split()[1:]) + name_of(item.line): item
        for item in said
    }


def name_of(line: str) -> str:
    words = line.split()
    return "".join(f" {words[words.index(flag) + 1]}" for flag in ("-n", "-j") if flag in words)


def test_tutorial_lines_have_their_documented_output_and_valid_responses(
    server: Running, lines: dict[str, AzOutput]
) -> None:
    not_found = 3
    assert {name: item.code for name, item in lines.items() if item.code} == {"job show prints": not_found}
    assert lines["workspace create ws"].data["resourceGroup"] == "az"
    assert lines["cluster create cl"].data["vmSize"] == "STANDARD_D1"
    assert "cl" in lines["cluster show cl"].out.splitlines()[2].split()
    assert lines["experiment create ex"].data["provisioningState"] == "succeeded"
    assert lines["job file stream prints"].out == "one\ntwo\n"
    assert "Job completed at" in lines["job wait prints"].error
    names = [line.split()[0] for line in lines["job file list prints"].out.splitlines()[2:]]
    assert names == ["execution.log", "stderr.txt", "stdout.txt"]
    listed = {line.split()[0]: line.split() for line in lines["job list"].out.splitlines()[2:]}
    assert "succeeded" in listed["prints"]
    assert "failed" in listed["sleeps"]
    assert lines["cluster resize cl"].data["scaleSettings"]["manual"]["targetNodeCount"] == 2
    assert len(lines["list-usages"].data) == 17
    assert lines["workspace list"].data == []
    operations = {seen.partition(" ")[0] for seen in server.watched.seen}
    assert operations >= {
        *(f"Workspaces_{verb}" for verb in ("Create", "Delete", "ListByResourceGroup")),
        *(f"Clusters_{verb}" for verb in ("Create", "Get", "Update", "ListRemoteLoginInformation")),
        *(f"Jobs_{verb}" for verb in ("Create", "Get", "Delete", "Terminate", "ListByExperiment")),
        *("Experiments_Create", "Jobs_ListOutputFiles", "Jobs_ListRemoteLoginInformation", "Usages_List"),
    }
    assert "Jobs_Get 404" in server.watched.seen
    assert server.watched.deviations == []


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A server whose certificate an authority of its own has signed."""
    with started(tmp_path_factory.mktemp("secure") / "home", "--tls", "self") as running:
        yield running


def test_over_tls_az_trusts_the_servers_own_authority_and_streams_a_job(
    secure: Process, tmp_path: Path
) -> None:
    authority = ServerHome(secure.home / "server").authority
    exports = az_config.write(tmp_path / "azure", secure.url, secure.token, Settings(), authority=authority)
    prints = printing(secure, tmp_path, verify=str(authority))
    made, shown, *others = said_with(
        exports,
        "batchai workspace create -g az -n ws -l eastus",
        "batchai workspace list -g az -o table",
        "batchai cluster create -g az -w ws -n cl -s STANDARD_D1 -t 1 -u demo -p hush",
        "batchai list-usages -l eastus -o table",
        "batchai experiment create -g az -w ws -n ex",
        f"batchai job create {IN_EX} -n prints -c cl -f {job_file(tmp_path, 'prints', prints)}",
        streams := f"batchai job file stream {IN_EX} -j prints -f stdout.txt",
        f"batchai job wait {IN_EX} -n prints",
    )
    (streamed,) = (said for said in others if said.line == streams)
    untrusted = [line for line in exports if "REQUESTS_CA_BUNDLE" not in line]
    (refused,) = said_with(untrusted, "batchai workspace list -g az")
    assert [said.error for said in (made, shown, *others) if said.code] == []
    assert made.data["name"] == "ws"
    assert "ws" in shown.out
    assert streamed.out == "one\ntwo\n"
    assert refused.code
    assert "CERTIFICATE" in refused.error.upper()


TODAY = (
    "batchai workspace create -g today -n ws -l eastus",
    "batchai cluster create -g today -w ws -n cl -s STANDARD_D1 -t 1 -u demo -p hush12345",
    "batchai cluster list -g today -w ws --query [].name -o tsv",
)


def test_the_az_of_today_signs_in_at_a_server_with_its_own_authority_on_any_port(
    secure: Process, tmp_path: Path
) -> None:
    az = f"{python_of('az291')} -W ignore -m azure.cli"
    write = [sys.executable, "-m", "batchai_magics.cli", "serve", "az-config", str(tmp_path / "az")]
    env = {**os.environ, "BATCHAI_HOME": str(secure.home)}
    configured = subprocess.run(write, env=env, capture_output=True, text=True, check=True).stdout
    script = "\n".join(["set -e", configured, *(f"{az} {line}" for line in TODAY)])
    clean = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    done = subprocess.run(
        ["bash", "-c", script], env=clean, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "cl"
