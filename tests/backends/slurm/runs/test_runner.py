"""The runner between the service and Slurm: what Slurm is asked for and told. Slurm is in memory."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from batchai_magics.backends.base import CommandEnd, NewJob
from batchai_magics.backends.folders import installed_programs, private_files
from batchai_magics.backends.service.context import cluster_of
from batchai_magics.backends.slurm import sbatch
from batchai_magics.backends.slurm.node.run_files import RunFiles
from batchai_magics.backends.slurm.runner import SlurmBackend
from batchai_magics.backends.slurm.settings import ANY, FIXED
from batchai_magics.cell import Notebook, parse
from batchai_magics.cell.sweep_request import parse_sweep
from batchai_magics.config import Settings
from batchai_magics.errors import CapabilityError, NotFoundError, ServiceError, SpecError, StorageError
from batchai_magics.jobs.submit import submit
from batchai_magics.jobs.sweeps.sweep_submission import submit_sweep
from batchai_magics.models.cluster_spec import ClusterPatch
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.resources import Cluster, ExperimentSpec, JobResource, WorkspaceSpec
from batchai_magics.records.record_files import TRIAL
from batchai_magics.records.trial_record import TrialRecord
from tests.backends.service.descriptions import CLUSTER, EXPERIMENT, WORKSPACE, cluster_spec, job_spec
from tests.backends.slurm.scripted_slurm import Job, ScriptedSettings, ScriptedSlurm
from tests.world import until

JOB = EXPERIMENT.child(Kind.JOB, "j")


class World:
    """A backend on a Slurm in memory, with a cluster of two nodes."""

    def __init__(self, home: Path, **settings: object) -> None:
        self.slurm = ScriptedSlurm()
        self.settings = ScriptedSettings(home=home, slurm=self.slurm, **settings)
        self.backend = SlurmBackend(self.settings)
        self.backend.create(WORKSPACE, WorkspaceSpec(location="eastus"))
        self.backend.create(EXPERIMENT, ExperimentSpec())
        self.backend.storage.make("out")
        self.cluster = self.made(2)

    def made(self, count: int, id: ResourceId = CLUSTER, **properties: object) -> Cluster:
        return self.backend.create(id, cluster_spec(count, **properties))

    def job(self, name: str = "j", **properties: object) -> JobResource:
        options = properties.pop("options", "")
        more = {"batchaiSlurm": options} if options else {}
        return self.backend.create(EXPERIMENT.child(Kind.JOB, name), job_spec(**properties, **more))

    def guid(self, id: ResourceId = JOB) -> str:
        return self.backend.context.repository.get(id).guid

    def files(self, id: ResourceId = JOB) -> RunFiles:
        return RunFiles(self.backend.layout.job(self.guid(id)).root)

    def in_slurm(self, id: ResourceId = JOB) -> Job:
        return self.slurm.job_of(self.guid(id))

    def resize(self, count: int, option: str = "requeue") -> None:
        manual = {"targetNodeCount": count, "nodeDeallocationOption": option}
        patch = ClusterPatch.from_wire({"properties": {"scaleSettings": {"manual": manual}}})
        self.backend.update(CLUSTER, patch)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "home")
    with closing(world.backend):
        yield world


@pytest.fixture
def fixed(tmp_path: Path) -> Iterator[World]:
    """The same where clusters keep to their own nodes."""
    world = World(tmp_path / "home", placement=FIXED)
    with closing(world.backend):
        yield world


def test_deleted_job_is_read_completely_or_not_at_all(world, monkeypatch):
    found, remove = [], private_files.remove_folder

    def look_and_remove(path: Path) -> None:
        found.append((path.exists(), root.exists()))
        remove(path)

    root = world.backend.layout.job(world.guid(world.job().id)).root
    monkeypatch.setattr(private_files, "remove_folder", look_and_remove)
    world.backend.delete(JOB)
    assert found == [(True, False)]
    assert not [path for path in root.parent.iterdir() if root.name in path.name]


IN_CONTAINERS: dict[str, object] = {
    "containerSettings": {"imageSourceRegistry": {"image": "tf:1"}},
    "customToolkitSettings": None,
    "horovodSettings": {"pythonScriptFilePath": "t.py", "processCount": 2},
}

# -- clusters


def test_clusters_with_nodes_of_their_own_share_none_while_there_are_others(fixed):
    other = WORKSPACE.child(Kind.CLUSTER, "other")
    fixed.made(1, other)
    assert [node.id for node in fixed.backend.nodes(CLUSTER)] == ["n1", "n2"]
    assert [node.id for node in fixed.backend.nodes(other)] == ["n3"]
    fixed.resize(1)
    assert [node.id for node in fixed.backend.nodes(CLUSTER)] == ["n1"]


def test_a_cluster_whose_partition_is_no_longer_the_one_of_the_settings_warns(tmp_path):
    world = World(tmp_path / "home", partition="batch")
    assert world.backend.show(CLUSTER).errors == ()
    with closing(SlurmBackend(replace(world.settings, partition="debug"))) as later:
        (warning,) = later.show(CLUSTER).errors
    assert warning.code == "PartitionDiffers"
    assert "of the partition batch" in warning.message


def test_submitter_is_told_that_the_cluster_is_in_another_partition(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # in no repository
    world = World(tmp_path / "home", partition="batch")
    settings = Settings(subscription="s", resource_group="g", workspace="w", experiment="e")
    cell = f"j --cluster {CLUSTER.name} --processes 1"
    with closing(SlurmBackend(replace(world.settings, partition="debug"))) as later:
        request = parse(cell, "print()", settings=settings)
        new, found = (submit(later, request, settings) for _ in range(2))
        trials = parse_sweep(
            f"s --cluster {CLUSTER.name} --processes 1 --sweep lr=1,2",
            "print({lr})",
            settings=settings,
            notebook=Notebook(),
        )
        sweep = submit_sweep(later, trials, settings)
        edited = submit(later, parse(cell, "print(2)", settings=settings), settings)
    assert new.note.startswith(f"Warning: The cluster {CLUSTER.name} is of the partition batch")
    assert "partition" not in found.note
    assert edited.note.startswith("The cell changed since j: running as j-2")
    assert new.note in edited.note
    assert sweep.note == new.note


# -- what a job becomes in Slurm


def test_a_job_is_submitted_with_what_it_asks_for(world):
    limits = {"maxWallClockTime": "PT1H"}
    world.job(nodeCount=2, schedulingPriority="low", constraints=limits, options="--account=lab")
    job = world.in_slurm()
    assert [job.option(name) for name in ("job-name", "nodes", "time", "nice", "partition")] == [
        "batchai-j",
        "2",
        "62",
        "20000",
        "batch",
    ]
    assert job.options[-2:] == ["--exclusive", "--account=lab"]
    assert job.option("exclude") is None
    assert (job.env["NCCL_DEBUG"], "MY_TOKEN" in job.env) == ("INFO", False)


def test_a_job_of_a_size_with_options_of_its_own_gets_them_between_general_and_own_ones(tmp_path):
    world = World(tmp_path / "home", sizes="Standard_D1=--constraint=a100 -p debug", options="--exclusive")
    world.job(options="--qos=high")
    job = world.in_slurm()
    assert job.option("partition") == "debug"
    assert job.options[-5:] == ["--exclusive", "--constraint=a100", "-p", "debug", "--qos=high"]


def test_a_job_may_take_no_longer_than_its_partition_gives(world):
    world.job()
    assert world.in_slurm().option("time") == str(24 * 60)


def test_the_job_runs_the_programs_of_its_home_with_the_interpreter_of_the_settings(tmp_path):
    world = World(tmp_path / "home", python="/opt/python3")
    world.job()
    job = world.in_slurm()
    folder = str(installed_programs.current(world.backend.layout.home, sbatch.PROGRAMS))
    assert "/opt/python3" in job.script
    assert folder in job.script
    assert job.env["PATH"].split(":")[0] == "/opt"
    usual = World(tmp_path / "usual")
    usual.job()
    assert sys.executable in usual.in_slurm().script


def test_an_engine_is_asked_for_only_where_a_job_has_an_image(world):
    image = {"imageSourceRegistry": {"image": "tf:1"}}
    with pytest.raises(CapabilityError, match=r"properties\.containerSettings .* no apptainer.* or podman"):
        world.job(containerSettings=image)
    world.slurm.programs = {"podman"}
    world.job(containerSettings=image)
    assert world.backend.runner.facts.container_engine(has_credentials=False) == ("podman",)
    with pytest.raises(CapabilityError, match=r"imageSourceRegistry\.credentials"):
        world.backend.runner.facts.container_engine(has_credentials=True)


@pytest.mark.parametrize(("engine", "node_count"), [("docker", 1), ("podman", 2), ("apptainer", 2)])
def test_mpi_runs_in_containers_that_can_join_it(tmp_path, engine, node_count):
    world = World(tmp_path / "home", container_command=engine)
    world.job(nodeCount=node_count, **IN_CONTAINERS)
    assert world.files().bundle.exists()


def test_mpi_of_several_nodes_is_refused_in_containers_that_cannot_join_it(tmp_path):
    world = World(tmp_path / "home", container_command="docker")
    with pytest.raises(CapabilityError, match=r"containerSettings .* MPI on 2 nodes with docker") as caught:
        world.job(nodeCount=2, **IN_CONTAINERS)
    assert "podman" in caught.value.hint
    assert list(world.backend.layout.job("x").root.parent.glob("*")) == []


def test_nothing_is_left_of_a_job_that_slurm_refuses_in_its_words(world):
    world.slurm.refusal = "sbatch: error: invalid account"
    with pytest.raises(ServiceError, match="invalid account"):
        world.job()
    with pytest.raises(NotFoundError):
        world.backend.show(JOB)
    assert list(world.backend.layout.job("x").root.parent.glob("*")) == []


def test_secrets_of_a_job_lie_beside_its_plan_for_its_owner_alone(world):
    world.job(secrets=[{"name": "TOKEN", "value": "hush-hush"}])
    file = world.files().secrets
    assert json.loads(file.read_text()) == {"TOKEN": "hush-hush"}
    assert file.stat().st_mode & 0o777 == 0o600
    assert "hush-hush" not in world.files().bundle.read_text()


# -- the state of a run


def test_accounting_is_asked_once_for_all_predecessors_that_slurm_has_forgotten(tmp_path):
    world = World(tmp_path / "home", lost_s=0.0)
    with closing(world.backend):
        first = [str(world.job(name).id) for name in ("a", "b", "c")]
        world.slurm.jobs.clear()
        world.job("last", batchaiAfterAny=first)
    assert world.slurm.accounted == ["1,2,3"]


def test_accounting_is_not_queried_where_there_is_none(tmp_path):
    world = World(tmp_path / "home", lost_s=0.0)
    with closing(world.backend):
        world.slurm.accounting = "none"
        world.job()
        world.slurm.jobs.clear()
        shown = until(lambda: world.backend.show(JOB).execution)  # once the clock of files has moved on
    (error,) = shown.errors
    assert "no longer knows the job" in error.message
    assert world.slurm.accounted == []


def test_more_jobs_than_an_array_may_have_are_several_arrays_one_after_the_other(world):
    records = [{TRIAL: TrialRecord("s", number, 2).to_text()} for number in range(5)]
    jobs = [NewJob(EXPERIMENT.child(Kind.JOB, f"t{n}"), job_spec(), text) for n, text in enumerate(records)]
    world.backend.create_jobs(jobs)
    numbers = [world.files(job.id).submission(1).slurm_job for job in jobs]
    assert numbers == ["1_0", "1_1", "1_2", "2_0", "2_1"]
    first, second = world.slurm.jobs.values()
    assert (first.option("array"), second.option("array")) == ("0-2%2", "0-1%2")
    assert (first.option("dependency"), second.option("dependency")) == (None, "afterany:1")


# -- resizing under runs


def held(world: World, name: str, count: int) -> Job:
    """The job in Slurm of a new job on so many nodes."""
    world.job(name, nodeCount=count)
    return world.in_slurm(EXPERIMENT.child(Kind.JOB, name))


def test_a_job_that_waits_is_held_while_its_cluster_is_too_small(fixed):
    large, small = held(fixed, "large", 2), held(fixed, "small", 1)
    assert (large.is_held, large.option("exclude"), small.option("exclude")) == (False, "n3", "n3")
    fixed.resize(1)
    assert (large.is_held, small.is_held, small.excluded) == (True, False, "n2,n3")
    fixed.resize(3)
    assert (large.is_held, large.excluded) == (False, "")


def test_without_own_nodes_no_node_is_excluded(world):
    small = held(world, "small", 1)
    world.resize(0)
    assert (small.is_held, small.excluded) == (True, "")
    assert world.settings.placement == ANY


# -- commands on nodes


def test_without_own_nodes_any_node_of_the_partition_takes_commands(world):
    said, end = world.backend.node_commands.execute(CLUSTER, "n3", "true")
    assert (said, end) == (b"said on the node\n", CommandEnd(3))
    assert "--nodelist=n3" in world.slurm.streamed[0].arguments
    with pytest.raises(NotFoundError, match="id=n4"):
        world.backend.node_commands.execute(CLUSTER, "n4", "true")


def test_a_job_that_shares_nodes_asks_slurm_for_gpus(world):
    cluster = cluster_of(world.backend.context.repository.get(CLUSTER))
    job = job_spec(nodeCount=2, batchaiGpus=2, batchaiSlurm="--qos=high")
    world.slurm.gres = "gpu:a100:4"
    state = world.backend.runner.check(job, cluster)
    assert state["options"].split() == ["--gpus-per-node=2", "--qos=high"]
    with pytest.raises(SpecError, match="--gpus-per-node: no node of the partition batch has"):
        world.backend.runner.check(job.model_copy(update={"batchai_gpus": 5}), cluster)


# -- what the home has


def test_a_home_that_cannot_be_made_is_named_by_its_setting():
    with pytest.raises(StorageError) as caught:
        SlurmBackend(ScriptedSettings(home=Path("/proc/nope/home")))
    assert "slurm.home" in caught.value.hint


class TestEnvironments:
    """Packages of a job are installed by uv, which nodes have if the login node does."""

    FOLDER = "$AZ_BATCHAI_MOUNT_ROOT/s/environments/0a1b"
    MAKING = f'python "$AZ_BATCHAI_INPUT/python_env.py" "{FOLDER}" extended "" six'

    def test_without_uv_they_are_refused_before_anything_is_submitted(self, world):
        with pytest.raises(CapabilityError, match=r"need uv .* the machine that submits has none"):
            world.job(jobPreparation={"commandLine": self.MAKING})
        assert not world.slurm.jobs
        assert world.backend.context.repository.find(JOB) is None

    def test_with_uv_or_a_setup_task_that_may_install_it_they_are_not(self, world):
        task = {"commandLine": "pip install uv", "stdOutErrPathPrefix": "$AZ_BATCHAI_MOUNT_ROOT/autoafs"}
        other = world.made(1, WORKSPACE.child(Kind.CLUSTER, "other"), nodeSetup={"setupTask": task})
        making = {"commandLine": self.MAKING}
        world.job("on-other", jobPreparation=making, cluster={"id": str(other.id)})
        world.slurm.programs.add("uv")
        world.job(jobPreparation=making)
        assert len(world.slurm.jobs) == 2
