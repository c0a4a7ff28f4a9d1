"""Processes of two hosts at once against one folder: nothing is lost, nothing is done twice."""

from __future__ import annotations

import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from batchai_magics.backends.base import FileRef
from batchai_magics.backends.slurm.runner import SlurmBackend
from batchai_magics.backends.slurm.settings import SlurmSettings
from batchai_magics.models.cluster_spec import ClusterPatch
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.states import ExecutionState
from tests.backends.local.namespace import scene, tell
from tests.backends.slurm.job_files import files
from tests.contract.place import MOUNTED, manual
from tests.world import until

pytestmark = pytest.mark.slow
HOSTS = ("login1", "login2")
COUNT = 2
# A name of its own for the machine: `unshare` asks for rights, which are there for oneself alone.
AS_HOST = ("unshare", *(["-u"] if os.geteuid() == 0 else ["-Uuc", "--keep-caps"]), "sh", "-c")


def work(folder: Path) -> None:
    """What a user does on one host: jobs of its own, one that both make, a cluster that both resize."""
    conf, cluster = (folder / "slurm").read_text().split("\n")
    experiment = ResourceId.parse((folder / "experiment").read_text())
    settings = SlurmSettings(home=folder / "home", conf=conf, placement="fixed", look_s=0.2, lost_s=1.0)
    with closing(SlurmBackend(settings)) as backend:
        host = socket.gethostname()
        (folder / host).touch()
        while not all((folder / each).exists() for each in HOSTS):
            time.sleep(0.01)
        own = [
            backend.create(experiment.child(Kind.JOB, f"{host}-{n}"), spec(cluster, host))
            for n in range(COUNT)
        ]
        shared = backend.create(experiment.child(Kind.JOB, "both"), spec(cluster, "both"))
        for count in (1, 2, 1, 2):
            patch = ClusterPatch.from_wire(
                {"properties": {"scaleSettings": manual(count, "waitforjobcompletion")}}
            )
            backend.update(ResourceId.parse(cluster), patch)
        jobs = [job.id for job in (*own, shared)]
        until(lambda: all(backend.show(job).state.is_final for job in jobs))
        states = {backend.show(job).state for job in jobs}
        logs = [backend.read(FileRef(job, "stdout.txt")).data.decode() for job in jobs]
        tell(host, states == {ExecutionState.SUCCEEDED}, logs)


def spec(cluster: str, text: str) -> JobSpec:
    properties = {
        "cluster": {"id": cluster},
        "nodeCount": 1,
        "stdOutErrPathPrefix": MOUNTED,
        "customToolkitSettings": {"commandLine": f"echo {text}; echo {text} >> {MOUNTED}/{text}"},
    }
    return JobSpec.from_wire({"properties": properties})


def test_two_hosts_make_and_end_jobs_in_one_folder(place, slurm, tmp_path):
    (tmp_path / "slurm").write_text(f"{slurm.conf}\n{place.cluster}")
    (tmp_path / "experiment").write_text(str(place.experiment))
    naming = 'hostname "$0" && exec "$@"'
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(scene, work, tmp_path, who=(*AS_HOST, naming, host)) for host in HOSTS]
        slurm_client = [line for each in both for line in each.result()]
    assert slurm_client == [[host, True, [f"{host}\n"] * COUNT + ["both\n"]] for host in HOSTS]
    names = {job.id.name for job in place.backend.list(place.experiment, Kind.JOB)}
    assert names == {"both", *(f"{host}-{number}" for host in HOSTS for number in range(COUNT))}
    assert place.stored("both") == "both\n"
    for host in HOSTS:
        assert place.stored(host) == f"{host}\n" * COUNT
    assert place.backend.show(place.cluster).spec.target_node_count == 2
    assert not list((tmp_path / "home").rglob("*.lock"))


# what one host has written, another one sees at once


def test_every_look_opens_its_files_afresh(place, tmp_path):
    """What another host has put in the place of a file is seen, and no file is held open in between."""
    job = place.run("echo first")
    run_files = files(place, job.id)
    log = next((tmp_path / "home" / "shares").rglob("stdouterr/stdout.txt"))
    assert place.log(job.id) == b"first\n"
    assert not [file.path for file in psutil.Process().open_files() if file.path.startswith(str(tmp_path))]
    _put(log, b"second\n")
    assert place.log(job.id) == b"second\n"
    end = run_files.end.read_text()
    _put(run_files.end, end.replace('"exit_code": 0', '"exit_code": 7').encode())
    assert place.backend.show(job.id).execution.exit_code == 7


def _put(file: Path, data: bytes) -> None:
    """As another host writes a file: whole, under another name, and then in its place."""
    part = file.with_name(f"{file.name}.other")
    part.write_bytes(data)
    part.replace(file)
