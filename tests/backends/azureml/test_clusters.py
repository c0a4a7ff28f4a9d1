"""Clusters of a workspace, over real connections to the stand-in."""

from __future__ import annotations

import contextlib

import pytest

from batchai_magics.backends.azureml.clusters import Clusters
from batchai_magics.backends.azureml.connection import Connection
from batchai_magics.commands.command_context import Context
from batchai_magics.commands.command_runner import run
from batchai_magics.commands.parsing.command_parser import parse
from batchai_magics.errors import BatchAIError, CapabilityError, ConflictError, NotFoundError
from batchai_magics.models.cluster_spec import ClusterPatch, ClusterSpec
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.states import AllocationState, NodeState
from tests.default_resources import ensure_defaults


def spec(**properties: object) -> ClusterSpec:
    scale = {"autoScale": {"minimumNodeCount": 0, "maximumNodeCount": 2}}
    account = {"adminUserName": "me", "adminUserSshPublicKey": "ssh-rsa AAAA"}
    wanted = {"vmSize": "Standard_NC4as_T4_v3", "scaleSettings": scale, "userAccountSettings": account}
    return ClusterSpec.from_wire({"properties": {**wanted, **properties}})


def fixed(count: int) -> dict[str, object]:
    return {"manual": {"targetNodeCount": count}}


@pytest.fixture
def clusters(connection: Connection) -> Clusters:
    return Clusters(connection)


@pytest.fixture
def gpus(workspace: ResourceId) -> ResourceId:
    return workspace.child(Kind.CLUSTER, "gpus")


def test_a_created_cluster_is_shown_as_it_was_described(clusters, gpus):
    made = clusters.create(gpus, spec(vmPriority="lowpriority"))
    shown = clusters.show(gpus)
    assert shown.spec == made.spec
    assert shown.spec.scale_settings == spec().scale_settings
    assert (shown.spec.vm_size, shown.spec.vm_priority.value) == ("Standard_NC4as_T4_v3", "lowpriority")
    assert shown.spec.user_account_settings.admin_user_name == "me"
    assert [cluster.id.name for cluster in clusters.list(gpus.workspace_id)] == ["gpus"]


def test_a_new_cluster_scales_to_zero_unless_told_otherwise(backend, settings, clusters, workspace):
    context = Context(settings)
    with contextlib.closing(context.backend):
        made = run(parse(["cluster", "create", "-n", "own", "-s", "Standard_NC4as_T4_v3"]), context)
    assert made.notes[0].startswith("The cluster scales between 0 and 2 nodes, since they cost money")
    ensure_defaults(backend, settings)
    for name in ("own", settings.cluster):
        scale = clusters.show(workspace.child(Kind.CLUSTER, name)).spec.scale_settings
        assert scale.auto_scale.minimum_node_count == 0


def test_an_identical_cluster_is_returned_and_a_different_one_named(clusters, gpus):
    clusters.create(gpus, spec())
    assert clusters.create(gpus, spec()).id == gpus
    with pytest.raises(ConflictError, match=r"scaleSettings: 0 to 2 nodes, not 3 nodes"):
        clusters.create(gpus, spec(scaleSettings=fixed(3)))


def test_a_cluster_is_resized_and_deleted(clusters, gpus):
    clusters.create(gpus, spec())
    patch = ClusterPatch.from_wire({"properties": {"scaleSettings": fixed(1)}})
    assert clusters.update(gpus, patch).spec.scale_settings == patch.scale_settings
    clusters.delete(gpus)
    with pytest.raises(NotFoundError, match="gpus"):
        clusters.show(gpus)
    with pytest.raises(NotFoundError, match="gpus"):
        clusters.nodes(gpus)


def test_nodes_tell_their_state_and_job(azure, clusters, gpus):
    azure.computes.preparation_s = 0
    nodes = azure.computes.add("gpus", minimum=3).nodes
    nodes[0].is_preempted, nodes[1].run_id = True, "someones-job"
    assert [node.state.value for node in clusters.nodes(gpus)] == ["preempted", "running", "idle"]
    shown = clusters.show(gpus)
    counts = shown.node_states
    assert shown.allocation_state is AllocationState.STEADY
    assert (counts.of(NodeState.PREEMPTED), counts.of(NodeState.RUNNING), counts.total) == (1, 1, 3)


def test_the_text_of_a_compute_error_is_shown(azure, clusters, gpus):
    azure.workspace.cores["Standard NCASv3_T4 Family"] = 4
    clusters.create(gpus, spec(scaleSettings=fixed(2)))
    (error,) = clusters.show(gpus).errors
    assert (error.code, "Maximum allowed: 4" in error.message) == ("ClusterCoreQuotaReached", True)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("nodeSetup", {"mountVolumes": {}}),
        ("scaleSettings", {"manual": {"targetNodeCount": 1, "nodeDeallocationOption": "terminate"}}),
        ("virtualMachineConfiguration", {"imageReference": {"publisher": "p", "offer": "o", "sku": "s"}}),
    ],
)
def test_settings_that_have_no_counterpart_are_refused_before_anything_is_sent(
    azure, clusters, gpus, field, value
):
    with pytest.raises(CapabilityError, match=rf"properties\.{field}[.\w]* is not supported"):
        clusters.create(gpus, spec(**{field: value}))
    assert azure.exchanges == []


@pytest.mark.parametrize(
    ("name", "changed", "reason"),
    [
        ("g", {}, "3 to 32 letters, digits and hyphens"),
        ("my_gpus", {}, "3 to 32 letters, digits and hyphens"),
        ("gpus", {"vmSize": "Standard_NC6"}, "there is no VM size Standard_NC6 in eastus"),
        ("gpus", {"scaleSettings": fixed(0)}, "at least one node"),
        (
            "gpus",
            {"scaleSettings": {"autoScale": {"minimumNodeCount": 0, "maximumNodeCount": 0}}},
            "at least one",
        ),
    ],
)
def test_a_cluster_that_the_service_refuses_is_not_asked_for(
    azure, clusters, workspace, name, changed, reason
):
    with pytest.raises(BatchAIError, match=reason):
        clusters.create(workspace.child(Kind.CLUSTER, name), spec(**changed))
    assert [each for each in azure.exchanges if each.request.method == "PUT"] == []


def test_serverless_compute_is_a_cluster_that_needs_no_creation(azure, clusters, workspace):
    serverless = workspace.child(Kind.CLUSTER, "serverless")
    assert clusters.create(serverless, spec()) == clusters.show(serverless)
    assert clusters.nodes(serverless) == ()
    assert azure.exchanges == []
