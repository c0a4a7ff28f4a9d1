"""Setup tasks on a real Slurm: once on each node of a cluster, by the first job that gets it."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from batchai_magics.backends.slurm.runner import SlurmBackend
from batchai_magics.models.resources import Cluster
from batchai_magics.models.states import ExecutionState
from tests.contract.place import HOLD, MOUNTED, Place, manual
from tests.world import files_containing, until

pytestmark = pytest.mark.slow


def cluster_of(place: Place, command: str, name: str = "c", **fields: object) -> Cluster:
    """A cluster of two nodes with a setup task."""
    task = {"commandLine": command, "stdOutErrPathPrefix": MOUNTED, **fields}
    return place.make_cluster(name, scale=manual(2), nodeSetup={"setupTask": task})


def both(place: Place, cluster: Cluster) -> dict[str, object]:
    """The fields of a job on both its nodes."""
    mpi = {"commandLine": "true", "processCount": 2}
    return {**place.on(cluster), "nodeCount": 2, "customToolkitSettings": None, "customMpiSettings": mpi}


def test_it_runs_once_on_each_node_of_each_cluster(place):
    task = {"environmentVariables": [{"name": "WHO", "value": "me"}]}
    command = f"echo set up by $WHO; echo $WHO >> {MOUNTED}/once"
    first, second = (cluster_of(place, command, name, **task) for name in ("one", "two"))
    for number, fields in enumerate((place.on(first), both(place, first), both(place, second))):
        job = place.run(name=f"job{number}", **fields)
        assert job.state is ExecutionState.SUCCEEDED, place.log(job.id, "execution-node1.log")
        assert place.stored("once").split() == ["me"] * (1, 2, 4)[number]
    names = sorted(node.id for node in place.backend.nodes(first.id))
    files = place.backend.setup_logs.files(first.id)
    assert {file.name for file in files} >= {f"{s}-{n}.txt" for s in ("stdout", "stderr") for n in names}


def test_its_failure_is_named_and_the_next_job_tries_again(place):
    cluster = cluster_of(place, f"echo broken >&2; test -e {MOUNTED}/mended || exit 4")
    job = place.run(name="first", **both(place, cluster))
    (error,) = job.execution.errors
    assert error.code == "NodeSetupFailed"
    names = sorted(node.id for node in place.backend.nodes(cluster.id))
    for name in names:
        assert f"Setup failed on {name}: broken (exit code 4); its output is in" in error.message
    assert b"broken" in Path(error.message.rpartition(" ")[2]).read_bytes()
    shown = place.backend.show(cluster.id)
    assert shown.node_states.unusable_node_count == 2
    assert {error.code for error in shown.errors} == {"NodeSetupFailed"}
    place.backend.storage.upload(place.share, {"mended": b""})
    assert place.run(name="next", **both(place, cluster)).state is ExecutionState.SUCCEEDED
    place.has(cluster.id, idle=2)
    assert not place.backend.show(cluster.id).errors


def test_where_it_fails_at_once_it_goes_on_to_its_end_on_the_other_node(place):
    cluster = cluster_of(place, f"mkdir {MOUNTED}/first && exit 4; sleep 3; exit 5")
    (error,) = place.run(name="first", **both(place, cluster)).execution.errors
    assert "exit code 4;" in error.message
    assert "(exit code 5);" in error.message  # behind what mkdir has printed


def test_a_node_that_was_started_anew_is_set_up_anew(place, tmp_path):
    cluster = cluster_of(place, f"echo x >> {MOUNTED}/often")
    place.run(name="one", **place.on(cluster))
    (record,) = (tmp_path / "home" / "clusters").glob("*/setup/*.json")
    known = json.loads(record.read_text())
    assert known["boot"].startswith("20")
    record.write_text(json.dumps({**known, "boot": "2001-01-01T00:00:00"}))
    place.run(name="two", **place.on(cluster))
    assert place.stored("often").split() == ["x"] * 2


def test_its_secrets_reach_it_alone_and_go_with_the_cluster(place, tmp_path):
    secrets = [{"name": "KEY", "value": "hunter2"}]
    cluster = cluster_of(place, 'test ${#KEY} -eq 7 -a -z "$OF_JOB"', secrets=secrets)
    mpi = {"commandLine": 'bash -c "test -z $KEY"', "processCount": 2}
    fields = {**both(place, cluster), "customMpiSettings": mpi}
    job = place.run(**fields, secrets=[{"name": "OF_JOB", "value": "other"}])
    assert job.state is ExecutionState.SUCCEEDED, job.execution
    (kept,) = files_containing(tmp_path, "hunter2")
    assert Path(kept).stat().st_mode & 0o777 == 0o600
    place.backend.delete(cluster.id)
    assert not files_containing(tmp_path, "hunter2")


def test_two_jobs_that_share_a_node_set_it_up_once(place):
    settings = replace(place.backend.settings, options="--ntasks=1")
    with closing(SlurmBackend(settings)) as shared:
        other = replace(place, backend=shared)
        command = f"echo x >> {MOUNTED}/once; until [ -e {MOUNTED}/go ]; do sleep 0.05; done"
        task = {"commandLine": command, "stdOutErrPathPrefix": MOUNTED}
        cluster = other.make_cluster(nodeSetup={"setupTask": task})
        jobs = [other.start(HOLD, name, **other.on(cluster)) for name in ("one", "two")]
        until(lambda: all(shared.show(job).state is ExecutionState.RUNNING for job in jobs))
        until(lambda: other.stored("once"))
        assert [other.log(job) for job in jobs] == [b"", b""]
        other.backend.storage.upload(other.share, {"go": b""})
        for job in jobs:
            other.is_up(job)
        assert other.stored("once") == "x\n"
