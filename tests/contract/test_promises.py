"""The numbered promises of `backends.base`: creating, states, secrets, errors, deleting."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from batchai_magics import cell
from batchai_magics.backends.base import FileRef, JobNeeds
from batchai_magics.errors import CapabilityError, ConflictError, NotFoundError, SpecError
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.submit import submit
from batchai_magics.models.cluster_spec import ClusterSpec, ManualScale, ScaleSettings
from batchai_magics.models.resource_ids import Kind
from batchai_magics.models.resources import ExperimentSpec, JobResource, WorkspacePatch, WorkspaceSpec
from batchai_magics.models.states import ExecutionState
from tests.contract.place import HOLD, MOUNTED, USER, Place
from tests.contract.places import PLACES
from tests.world import until

pytestmark = [pytest.mark.slow, pytest.mark.decided_by("service")]
MISSING = "/subscriptions/s/resourceGroups/g/providers/Microsoft.BatchAI/workspaces/x"
VAULT = {"sourceVault": {"id": "v"}, "secretUrl": "https://v.vault.azure.net/secrets/a"}


# 1, 2, 10: creating


@pytest.mark.needs("checked_nodes")
def test_a_refused_job_leaves_nothing_behind(place: Place) -> None:
    for field, value, error in (
        ("nodeCount", 3, SpecError),
        ("stdOutErrPathPrefix", "/tmp/somewhere", SpecError),
        ("cluster", {"id": f"{MISSING}/clusters/x"}, NotFoundError),
    ):
        with pytest.raises(error):
            place.backend.create(place.job(), place.spec(**{field: value}))
        assert not place.backend.list(place.experiment, Kind.JOB)


def test_what_a_backend_cannot_do_is_refused_by_name_before_files_are_stored(place: Place) -> None:
    place.backend.check_needs(JobNeeds(place.job(), spec=place.spec()))  # it fits, and nothing is made
    request = cell.parse("refused", "print(1)", settings=place.settings)
    beyond = replace(request, spec=place.spec(batchaiMoons="2"))
    with pytest.raises(CapabilityError, match=r"properties\.batchaiMoons"):
        submit(place.backend, beyond, place.settings)
    if place.backend.storage and place.settings.share in place.backend.storage.shares():
        files = place.backend.storage.list(place.settings.share)
        assert [file.path for file in files if "refused" in file.path] == []
    if not place.backend.capabilities.key_vault:
        with pytest.raises(CapabilityError, match=r"secrets\[\]"):
            place.start(secrets=[{"name": "A", "valueSecretReference": VAULT}])
    if "slurm" not in place.backend.capabilities.backend_options:
        with pytest.raises(CapabilityError, match=r"properties\.batchaiSlurm is not supported by the"):
            place.start(batchaiSlurm="--qos=long")
    assert not place.backend.list(place.experiment, Kind.JOB)


@pytest.mark.needs("workspaces")
def test_a_workspace_is_made_once_and_has_the_tags_that_it_was_given_last(place: Place) -> None:
    before = place.backend.show(place.workspace)
    assert place.backend.create(place.workspace, WorkspaceSpec(location="elsewhere")) == before
    assert len(place.backend.list(place.workspace, Kind.EXPERIMENT)) == 1
    tagged = replace(place.workspace, workspace="tagged", name="tagged")
    place.backend.create(tagged, WorkspaceSpec(location="eastus", tags={"team": "a", "cost": "b"}))
    assert place.backend.show(tagged).tags == {"team": "a", "cost": "b"}
    assert place.backend.update(tagged, WorkspacePatch(tags={"Team": "c"})).tags == {"Team": "c"}
    shown = place.backend.show(tagged)
    assert (shown.tags, shown.location) == ({"Team": "c"}, "eastus")
    place.backend.delete(tagged)


@pytest.mark.decided_by("engine")
@pytest.mark.sample
def test_a_job_that_has_ended_is_changed_by_no_creation_or_termination_and_outlives_its_cluster(
    place: Place,
) -> None:
    first = place.backend.create(place.job(), place.spec())
    job = place.wait(place.job())
    assert (job.state, job.execution.exit_code) == (ExecutionState.SUCCEEDED, 0)
    assert job.execution.started <= job.execution.ended
    again = place.backend.create(place.job(), place.spec())
    assert (again.provisioning, again.state) == (first.provisioning, ExecutionState.SUCCEEDED)
    with pytest.raises(ConflictError) as caught:
        place.start("echo other")
    assert caught.value.code == "JobAlreadyExists"
    place.backend.terminate(job.id)
    assert place.backend.show(job.id) == job
    place.backend.delete(place.cluster)
    assert (place.backend.show(job.id).state, place.log(job.id)) == (ExecutionState.SUCCEEDED, b"hello\n")


@pytest.mark.needs("setup_tasks")
def test_creating_the_same_cluster_again_returns_it(place: Place) -> None:
    task = {"commandLine": "true", "stdOutErrPathPrefix": MOUNTED}
    other = {**task, "commandLine": "false"}
    for fields, others in (
        ({"vmPriority": "lowpriority"}, {"vmPriority": "dedicated"}),
        ({"nodeSetup": {"setupTask": task}}, {"nodeSetup": {"setupTask": other}}),
    ):
        first, again = (place.make_cluster(**fields) for _ in range(2))
        assert (again.provisioning, again.spec) == (first.provisioning, first.spec)
        with pytest.raises(ConflictError):
            place.make_cluster(**others)
        place.backend.delete(first.id)


@pytest.mark.sample
@pytest.mark.needs("storage")
def test_what_a_job_needs_is_made_where_it_is_missing_or_not_at_all(place: Place) -> None:
    spec = place.backend.show(place.cluster).spec
    experiment = place.workspace.child(Kind.EXPERIMENT, "new")
    other = (
        (place.workspace, WorkspaceSpec(location="elsewhere")),
        (experiment, ExperimentSpec()),
        (place.cluster, spec.model_copy(update={"vm_size": "STANDARD_NC6"})),
    )
    needs = JobNeeds(experiment.child(Kind.JOB, "job"), other, share="needed")
    assert list(place.backend.ensure(needs)) == list(place.backend.ensure(needs)) == []
    assert place.backend.show(place.cluster).spec == spec
    assert place.backend.show(experiment).id == experiment
    scale = ScaleSettings(manual=ManualScale(target_node_count=9999))
    huge = (place.workspace.child(Kind.CLUSTER, "huge"), spec.model_copy(update={"scale_settings": scale}))
    with pytest.raises(ConflictError):
        place.backend.ensure(JobNeeds(experiment.child(Kind.JOB, "job"), (huge,), share="unmade"))
    assert {"needed", "unmade"} & {*place.backend.storage.shares()} == {"needed"}
    with pytest.raises(NotFoundError):
        place.backend.show(huge[0])


def test_the_runs_of_a_jobs_name_are_told_with_what_it_needs(place: Place) -> None:
    for name in ("job-10", "job", "job-2", "job-x", "jobs"):
        place.start("true", name)
    runs = place.backend.ensure(JobNeeds(place.job()))
    assert [run.id.name for run in runs] == ["job", "job-2", "job-10"]
    assert runs[0].spec == place.backend.show(place.job()).spec


# 19: names


@pytest.mark.sample
@pytest.mark.needs("experiments")
def test_lists_and_names_are_in_the_order_of_creation_and_no_letter_case_tells_apart(place: Place) -> None:
    created = ["resnet", "other", "resnet-2", "ResNet-10", "resne"]
    for name in created:
        place.backend.create(place.workspace.child(Kind.EXPERIMENT, name), ExperimentSpec())
    place.start(name="resnet-3")  # of another kind, below one of them
    names = place.backend.names
    listed = [item.id.name for item in place.backend.list(place.workspace, Kind.EXPERIMENT)]
    assert listed == names(place.workspace, Kind.EXPERIMENT) == [place.experiment.name, *created]
    assert [item.id for item in place.backend.list(place.workspace, Kind.CLUSTER)] == [place.cluster]
    assert place.backend.show(place.workspace.child(Kind.EXPERIMENT, "RESNET-10")).id.name == "ResNet-10"
    assert names(place.workspace, Kind.EXPERIMENT, "RESNET") == ["resnet", "resnet-2", "ResNet-10"]
    assert names(place.experiment, Kind.JOB) == names(place.experiment, Kind.JOB, "resnet-3") == ["resnet-3"]
    assert not names(place.workspace, Kind.CLUSTER, "resnet")
    with pytest.raises(NotFoundError):
        names(place.workspace.child(Kind.EXPERIMENT, "nope"), Kind.JOB)


@pytest.mark.decided_by("engine")
@pytest.mark.sample
def test_a_backend_is_what_it_is_offered_as(place: Place, request: pytest.FixtureRequest) -> None:
    offer = PLACES[request.node.callspec.params["place"]]
    assert place.backend.capabilities == offer.capabilities


# 3, 8: states


@pytest.mark.decided_by("engine")
@pytest.mark.sample
def test_a_failed_job_or_preparation_has_its_own_code(place: Place) -> None:
    info = place.run("no_such_program").execution
    assert info.exit_code == 127
    told = "Job failed with non-zero exit code"
    assert (info.errors[0].code, info.errors[0].message) == ("JobFailed", told)
    task = {"commandLine": "exit 3"}
    job = place.run("touch $AZ_BATCHAI_STDOUTERR_DIR/ran", "prepared", jobPreparation=task)
    assert job.execution.errors[0].code == "JobPreparationFailed"
    assert "ran" not in [file.name for file in place.backend.files(job.id)]


# 15: ranks


FAILS = """
rank=${PMI_RANK:-$OMPI_COMM_WORLD_RANK}; echo noise of $rank >&2
[ $rank = 3 ] && exit 0
[ $rank = 2 ] || exec sleep 1000
sleep 0.5; exit 7
"""


@pytest.mark.decided_by("engine")
@pytest.mark.sample
def test_ranks_have_their_exits_and_the_one_that_failed_first_is_first_with_its_last_lines(
    place: Place, request: pytest.FixtureRequest
) -> None:
    job = place.wait(place.start_ranks(FAILS, count=4))
    first, *others = job.ranks
    assert (first.rank, first.exit_code, job.execution.exit_code) == (2, 7, 7)
    assert sorted(exit.rank for exit in others) == [0, 1, 3]
    (succeeded,) = (exit for exit in others if exit.exit_code == 0)
    assert succeeded.rank == 3
    if PLACES[request.node.callspec.params["place"]].has("fixed_nodes"):
        assert job.execution.started <= succeeded.ended <= first.ended <= job.execution.ended
        assert {exit.node for exit in job.ranks} <= {node.id for node in place.backend.nodes(place.cluster)}
    details = {detail.name: detail.value for detail in job.execution.errors[0].details}
    assert details == {"failedRank": "2", "failedNode": first.node, "exitCode": "7"}
    error = Job(place.backend, job.id).error
    assert error is not None
    assert (error.rank, error.exit_code, error.reason, error.lines) == (2, 7, "exit code 7", ("noise of 2",))
    assert None not in job.to_wire()["properties"].values()
    arrived = JobResource.from_wire(json.loads(json.dumps(job.to_wire())))
    assert arrived.execution.exit_code == 7
    here, there = (
        [(exit.rank, exit.node, exit.exit_code, bool(exit.ended)) for exit in shown.ranks]
        for shown in (job, arrived)
    )
    assert here == there


# 5: at the same time


@pytest.mark.decided_by("engine")
@pytest.mark.sample
def test_many_threads_may_ask_at_once(place: Place) -> None:
    names = ["one", "two"] * 2
    with ThreadPoolExecutor(len(names)) as threads:
        jobs = list(threads.map(lambda name: place.run(name=name), names))
    assert [(job.id.name, job.state) for job in jobs] == [(name, ExecutionState.SUCCEEDED) for name in names]
    listed = place.backend.list(place.experiment, Kind.JOB)
    assert sorted(job.id.name for job in listed) == ["one", "two"]


@pytest.mark.decided_by("engine")
@pytest.mark.sample
def test_two_processes_see_the_same_job_and_end_it_without_an_exit_code_or_delete_it(place: Place) -> None:
    job = place.start(HOLD)
    with place.reopen() as other:
        assert other.create(job, place.spec(HOLD)).id == job
        until(lambda: other.read(FileRef(job, "stdout.txt")).data == b"up\n")
        other.terminate(job)
        ended = place.wait(job)
        assert ended == other.show(job)
        assert (ended.state, ended.execution.exit_code) == (ExecutionState.FAILED, None)
        assert ended.execution.errors[0].message == "The specified job has been terminated by the user"
        other.delete(place.start(HOLD, "deleted"))  # which ends it first
    with pytest.raises(NotFoundError):
        place.backend.show(place.job("deleted"))
    place.has(place.cluster, idle=2)


# 6: secrets


@pytest.mark.decided_by("nodes")
@pytest.mark.sample
@pytest.mark.needs("separate_stderr")
def test_what_a_job_prints_of_its_secrets_is_told_and_left_as_it_is(place: Place) -> None:
    command = (
        "printf 'it is %s.\\n' $KEY; printf %s $KEY >&2; ln -s stdout.txt $AZ_BATCHAI_STDOUTERR_DIR/latest"
    )
    secrets = [{"name": "KEY", "value": "hunter2"}]
    id = place.start(command, secrets=secrets, jobPreparation={"commandLine": "echo $KEY"})
    place.wait(id)
    chunk = place.backend.read(FileRef(id, "stdout.txt"))
    assert (chunk.data, chunk.redacted.data) == (b"it is hunter2.\n", b"it is *******.\n")
    assert place.backend.read(FileRef(id, "stdout.txt"), 8, 3).redacted.data == b"***"
    told = place.backend.tail(id, {})
    assert (told["stdout.txt"].redacted.data, told["stderr.txt"].redacted.data) == (
        b"it is *******.\n",
        b"*******",
    )
    assert told["latest"].redacted.data == b"it is *******.\n"
    assert told["stdout-job_prep.txt"].redacted.data == b"*******\n"
    with place.reopen() as other:
        assert other.read(FileRef(id, "stderr.txt")).redacted.data == b"*******"


@pytest.mark.needs("empty_clusters")
def test_a_password_never_comes_back(place: Place) -> None:
    properties = {"vmSize": "STANDARD_D1", "userAccountSettings": USER}
    id = place.workspace.child(Kind.CLUSTER, "other")
    cluster = place.backend.create(id, ClusterSpec.from_wire({"properties": properties}))
    assert "hush" not in repr(cluster) + json.dumps(cluster.to_wire())


# 7: errors


@pytest.mark.needs("experiments")
def test_what_is_missing_or_has_no_parent_is_told_with_the_services_code(place: Place) -> None:
    for kind in (Kind.CLUSTER, Kind.EXPERIMENT, Kind.FILE_SERVER):
        for verb in (place.backend.show, place.backend.delete):
            with pytest.raises(NotFoundError) as caught:
                verb(place.workspace.child(kind, "nope"))
            assert caught.value.code == f"{kind.code}NotFound"
            assert caught.value.message == f"The specified {kind.noun} nope is not found"
    missing = place.workspace.child(Kind.EXPERIMENT, "nope")
    with pytest.raises(NotFoundError, match="experiment nope"):
        place.backend.show(missing.child(Kind.JOB, "job"))
    with pytest.raises(NotFoundError, match="experiment nope"):
        place.backend.list(missing, Kind.JOB)


def test_every_verb_about_a_job_says_that_it_is_missing(place: Place) -> None:
    job, backend = place.job("nope"), place.backend
    verbs = (backend.show, backend.delete, backend.terminate, backend.nodes, backend.files)
    for verb in (*verbs, lambda id: backend.read(FileRef(id, "stdout.txt"))):
        with pytest.raises(NotFoundError) as caught:
            verb(job)
        assert caught.value.code == "JobNotFound"


# 9: ending and deleting


@pytest.mark.sample
def test_deleting_an_experiment_deletes_its_jobs(place: Place) -> None:
    place.start()
    place.backend.delete(place.experiment)
    assert not place.backend.list(place.workspace, Kind.EXPERIMENT)
    place.backend.create(place.experiment, ExperimentSpec())
    assert not place.backend.list(place.experiment, Kind.JOB)


@pytest.mark.needs("workspaces")
def test_deleting_the_workspace_ends_and_forgets_everything(place: Place) -> None:
    place.is_up(place.start(HOLD))
    place.backend.delete(place.workspace)
    place.backend.create(place.workspace, WorkspaceSpec())
    for kind in (Kind.EXPERIMENT, Kind.CLUSTER):
        assert not place.backend.list(place.workspace, kind)


@pytest.mark.decided_by("nodes")
def test_a_process_that_was_killed_tells_how_much_memory_it_had(place: Place) -> None:
    big = "import os; kept = b'x' * 200_000_000; os.kill(os.getpid(), 9)"
    (rank,) = place.run(f'python3 -c "{big}"').ranks
    assert rank.exit_code == 137
    assert 200e6 < rank.peak_bytes < 400e6
    assert rank.meaning.startswith("killed (SIGKILL)")
    assert f"{rank.peak_bytes / 1e6:.0f} MB" in rank.meaning
