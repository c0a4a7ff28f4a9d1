"""What is kept of a description holds no secret, and is known again by what it asks for."""

import json

from batchai_magics.backends.service.stored_descriptions import (
    fingerprint,
    output_segment,
    stored_text,
    with_image,
    with_setup_suffix,
)
from batchai_magics.models.cluster_spec import ClusterSpec
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.resources import ExperimentSpec, WorkspaceSpec
from tests.models.samples import cluster_body, job_body

WORKSPACE = ResourceId("s", "g", "w", Kind.WORKSPACE, "w")
CLUSTER = WORKSPACE.child(Kind.CLUSTER, "c")


def test_no_secret_is_kept():
    spec = JobSpec.from_wire(job_body())
    assert "hidden" not in stored_text(spec)
    assert JobSpec.from_stored(stored_text(spec)).settings == spec.settings


def test_a_workspace_keeps_its_place_and_an_experiment_nothing():
    assert json.loads(stored_text(WorkspaceSpec(location="eastus"))) == {"location": "eastus"}
    assert stored_text(ExperimentSpec()) == "{}"


def test_the_same_description_is_known_again_and_another_is_not():
    first, again = (JobSpec.from_wire(job_body()) for _ in range(2))
    assert fingerprint(first) == fingerprint(again)
    assert fingerprint(JobSpec.from_wire(job_body(nodeCount=3))) != fingerprint(first)


def test_what_the_service_adds_makes_no_other_description():
    asked = ClusterSpec.from_wire(cluster_body())
    assert fingerprint(with_setup_suffix(asked, CLUSTER, "guid")) == fingerprint(asked)


def test_another_secret_makes_no_other_description():
    other = job_body(secrets=[{"name": "TOKEN", "value": "other"}])
    assert fingerprint(JobSpec.from_wire(other)) == fingerprint(JobSpec.from_wire(job_body()))


def test_workspaces_and_experiments_are_known_by_name_alone():
    assert fingerprint(WorkspaceSpec(location="eastus")) == fingerprint(ExperimentSpec()) == ""


def test_the_output_of_a_run_lies_where_the_service_put_it():
    job = WORKSPACE.child(Kind.EXPERIMENT, "e").child(Kind.JOB, "j")
    assert output_segment(job, "guid") == "s/g/workspaces/w/experiments/e/jobs/j/guid"


def test_the_logs_of_a_setup_task_lie_where_the_service_put_them():
    spec = with_setup_suffix(ClusterSpec.from_wire(cluster_body()), CLUSTER, "guid")
    assert spec.node_setup.setup_task.std_out_err_path_suffix == "s/g/workspaces/w/clusters/c/guid"


def test_a_cluster_without_a_setup_task_stays_as_it_is():
    mounts = {"unmanagedFileSystems": [{"mountCommand": "m", "relativeMountPath": "nfs"}]}
    for setup in (None, {}, {"mountVolumes": mounts}):
        spec = ClusterSpec.from_wire(cluster_body(nodeSetup=setup))
        assert with_setup_suffix(spec, CLUSTER, "guid") is spec


def test_the_image_of_nodes_is_the_default_one_where_none_is_named():
    image = with_image(ClusterSpec.from_wire(cluster_body())).virtual_machine_configuration.image_reference
    assert (image.publisher, image.offer) == ("Canonical", "UbuntuServer")
    assert (image.sku, image.version) == ("16.04-LTS", "latest")


def test_a_named_image_is_kept_and_is_the_latest_one_unless_it_says_which():
    named = {"publisher": "microsoft-ads", "offer": "linux", "sku": "x"}
    for more, version in (
        ({}, "latest"),
        ({"version": "1.2"}, "1.2"),
        ({"virtualMachineImageId": "/an/id"}, None),
    ):
        machine = {"virtualMachineConfiguration": {"imageReference": {**named, **more}}}
        spec = with_image(ClusterSpec.from_wire(cluster_body(**machine)))
        image = spec.virtual_machine_configuration.image_reference
        assert (image.publisher, image.offer, image.sku) == ("microsoft-ads", "linux", "x")
        assert image.version == version
