"""What is kept of a description holds no secret, and is known again by what it asks for."""

from batchai_magics.backends.service.stored_descriptions import fingerprint, with_setup_suffix
from batchai_magics.models.cluster_spec import ClusterSpec
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.resource_ids import Kind, ResourceId
from tests.models.samples import cluster_body, job_body

WORKSPACE = ResourceId("s", "g", "w", Kind.WORKSPACE, "w")
CLUSTER = WORKSPACE.child(Kind.CLUSTER, "c")


def test_fingerprint_does_not_depend_on_secrets():
    other = job_body(secrets=[{"name": "TOKEN", "value": "other"}])
    assert fingerprint(JobSpec.from_wire(other)) == fingerprint(JobSpec.from_wire(job_body()))


def test_path_suffix_of_setup_logs_is_the_services_and_not_in_the_fingerprint():
    asked = ClusterSpec.from_wire(cluster_body())
    made = with_setup_suffix(asked, CLUSTER, "guid")
    assert made.node_setup.setup_task.std_out_err_path_suffix == "s/g/workspaces/w/clusters/c/guid"
    assert fingerprint(made) == fingerprint(asked)
