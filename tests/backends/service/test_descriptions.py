"""What is kept of a description holds no secret, and is known again by what it asks for."""

import json

from batchai_magics.backends.service.resource_views import cluster_spec
from batchai_magics.backends.service.stored_descriptions import fingerprint, with_setup_suffix
from batchai_magics.models.cluster_spec import ClusterSpec
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.resource_ids import Kind, ResourceId
from tests.models.samples import cluster_body, job_body

WORKSPACE = ResourceId("s", "g", "w", Kind.WORKSPACE, "w")
CLUSTER = WORKSPACE.child(Kind.CLUSTER, "c")


def test_another_secret_makes_no_other_description():
    other = job_body(secrets=[{"name": "TOKEN", "value": "other"}])
    assert fingerprint(JobSpec.from_wire(other)) == fingerprint(JobSpec.from_wire(job_body()))


def test_the_logs_of_a_setup_task_lie_where_the_service_put_them_which_makes_no_other_description():
    asked = ClusterSpec.from_wire(cluster_body())
    made = with_setup_suffix(asked, CLUSTER, "guid")
    assert made.node_setup.setup_task.std_out_err_path_suffix == "s/g/workspaces/w/clusters/c/guid"
    assert fingerprint(made) == fingerprint(asked)


def test_the_image_of_nodes_is_the_default_one_where_none_is_named():
    image = cluster_spec(json.dumps(cluster_body())).virtual_machine_configuration.image_reference
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
        spec = cluster_spec(json.dumps(cluster_body(**machine)))
        image = spec.virtual_machine_configuration.image_reference
        assert (image.publisher, image.offer, image.sku) == ("microsoft-ads", "linux", "x")
        assert image.version == version
