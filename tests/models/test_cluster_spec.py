import pytest

from batchai_magics.errors import SpecError
from batchai_magics.models.cluster_spec import ClusterPatch, ClusterSpec, NodeStateCounts, ScaleSettings
from tests.models.samples import cluster_body


def problems(**changes):
    with pytest.raises(SpecError) as caught:
        ClusterSpec.from_wire(cluster_body(**changes))
    return {problem.path: str(problem) for problem in caught.value.problems}


def test_the_password_does_not_come_back():
    user = ClusterSpec.from_wire(cluster_body()).to_wire()["properties"]["userAccountSettings"]
    assert user == {"adminUserName": "demo"}


@pytest.mark.parametrize(
    "scale",
    [{}, {"manual": {"targetNodeCount": 1}, "autoScale": {"minimumNodeCount": 0, "maximumNodeCount": 1}}],
)
def test_one_way_of_scaling_is_needed(scale):
    assert "give one of manual and autoScale" in problems(scaleSettings=scale)["properties.scaleSettings"]


@pytest.mark.parametrize(
    "numbers", [(2, 1, 0), (0, 1, 2)], ids=["more at least than at most", "more at first than at most"]
)
def test_impossible_auto_scale_is_refused(numbers):
    keys = ("minimumNodeCount", "maximumNodeCount", "initialNodeCount")
    found = problems(scaleSettings={"autoScale": dict(zip(keys, numbers, strict=True))})
    assert list(found) == ["properties.scaleSettings.autoScale"]


@pytest.mark.parametrize("numbers", [(2, 2, 0), (0, 0, 0), (0, 3, 3)])
def test_auto_scale_may_begin_or_stay_at_its_edge(numbers):
    scale = dict(zip(("minimumNodeCount", "maximumNodeCount", "initialNodeCount"), numbers, strict=True))
    spec = ClusterSpec.from_wire(cluster_body(scaleSettings={"autoScale": scale}))
    assert spec.scale_settings.auto_scale.maximum_node_count == numbers[1]


@pytest.mark.parametrize(
    ("count", "bound"), [(2**31, "expected at most 2147483647"), (-1, "expected at least 0, got -1")]
)
def test_a_target_that_no_service_can_count_is_refused(count, bound):
    found = problems(scaleSettings={"manual": {"targetNodeCount": count}})
    assert bound in found["properties.scaleSettings.manual.targetNodeCount"]


def test_a_cluster_starts_with_its_target_its_first_count_or_its_minimum():
    scale = {"autoScale": {"minimumNodeCount": 2, "maximumNodeCount": 4}}
    first = {"autoScale": {**scale["autoScale"], "initialNodeCount": 3}}
    assert ClusterSpec.from_wire(cluster_body(scaleSettings=first)).target_node_count == 3
    assert ClusterSpec.from_wire(cluster_body()).target_node_count == 2
    assert ClusterSpec.from_wire(cluster_body(scaleSettings=scale)).target_node_count == 2
    assert ClusterSpec.from_wire(cluster_body(scaleSettings=None)).target_node_count == 0


def test_a_misspelt_priority_lists_the_right_ones():
    assert "'dedicated' or 'lowpriority'" in problems(vmPriority="cheap")["properties.vmPriority"]


def test_a_patch_changes_the_scale_only():
    patch = ClusterPatch.from_wire({"properties": {"scaleSettings": {"manual": {"targetNodeCount": 3}}}})
    assert patch.scale_settings.manual.target_node_count == 3
    with pytest.raises(SpecError, match="vmSize: unknown key"):
        ClusterPatch.from_wire(
            {"properties": {"vmSize": "x", "scaleSettings": {"manual": {"targetNodeCount": 3}}}}
        )


def test_preempted_nodes_are_counted_where_a_backend_tells_of_them() -> None:
    counts = NodeStateCounts(running_node_count=2, preempted_node_count=1)
    assert (counts.total, counts.to_wire()["preemptedNodeCount"]) == (3, 1)
    assert "preemptedNodeCount" not in NodeStateCounts(running_node_count=2).to_wire()


@pytest.mark.parametrize(
    ("scale", "count", "expected"),
    [
        ({"manual": {"targetNodeCount": 2}}, 2, None),
        ({"manual": {"targetNodeCount": 2}}, 3, {"targetNodeCount": 3}),
        ({"autoScale": {"minimumNodeCount": 1, "maximumNodeCount": 3}}, 3, None),
        ({"autoScale": {"minimumNodeCount": 1, "maximumNodeCount": 3}}, 5, {"maximumNodeCount": 5}),
    ],
)
def test_cluster_is_enlarged_only_if_it_is_too_small(scale, count, expected):
    larger = ScaleSettings.model_validate(scale).with_room_for(count)
    assert (larger is None) == (expected is None)
    if larger and expected:
        part = larger.manual or larger.auto_scale
        assert expected.items() <= part.model_dump(by_alias=True).items()
