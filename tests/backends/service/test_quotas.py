"""Cores are counted by family and priority, and refused beyond the quota, not at it."""

import pytest

from batchai_magics.backends.service.home_subscription import (
    FAMILIES,
    MAX_CLUSTERS,
    Nodes,
    check_quotas,
    family,
    quota_usages,
)
from batchai_magics.errors import ConflictError

CLUSTERS = [
    Nodes("STANDARD_NC6", 2),
    Nodes("Standard_D2", 3),
    Nodes("Standard_NC12", 1),
    Nodes("Standard_NC12", 1, is_low_priority=True),
]


def used(clusters):
    return {usage.name: usage.current for usage in quota_usages(clusters, 100)}


def test_clusters_and_cores_are_counted_by_family_and_priority():
    counted = used(CLUSTERS)
    assert counted["Clusters"] == 4
    assert counted["Total Cluster Dedicated Regional vCPUs"] == 2 * 6 + 3 * 2 + 12
    assert counted["Standard NC Family Cluster Dedicated vCPUs"] == 2 * 6 + 12
    assert counted["Standard D Family Cluster Dedicated vCPUs"] == 6
    assert counted["Total Cluster LowPriority Regional vCPUs"] == 12
    assert counted["Standard NC Family Cluster LowPriority vCPUs"] == 12
    assert counted["Standard ND Family Cluster Dedicated vCPUs"] == 0


def test_list_of_quotas_matches_the_service():
    listed = quota_usages([], 100)
    assert len(listed) == 1 + 2 * (1 + len(FAMILIES)) == 17
    assert (listed[0].name, listed[0].limit) == ("Clusters", MAX_CLUSTERS)
    assert {usage.limit for usage in listed[1:]} == {100}
    shown = [usage.localized_name for usage in listed]
    assert shown[:3] == [
        "Clusters",
        "Total Cluster Dedicated Regional vCPUs",
        "Standard D Family Cluster Dedicated vCPUs",
    ]
    assert shown[9:11] == [
        "Total Cluster LowPriority Regional vCPUs",
        "Standard D Family Cluster LowPriority vCPUs",
    ]


def test_quota_allows_exactly_its_number_of_cores():
    check_quotas(Nodes("Standard_NC6", 1), CLUSTERS, 48)
    with pytest.raises(ConflictError) as caught:
        check_quotas(Nodes("Standard_NC6", 1), CLUSTERS, 47)
    assert caught.value.code == "OperationNotAllowed"
    assert "Maximum allowed: 47, Current in use: 42, Additional requested: 6." in caught.value.message


@pytest.mark.parametrize(
    ("vm_size", "name"),
    [
        ("standard_nc6", "NC"),
        ("Standard_NC6s_v2", "NCv2"),
        ("Standard_NC24rs_v3", "NCv3"),
        ("Standard_ND6s", "ND"),
        ("Standard_D2_v2", "Dv2"),
        ("Standard_NV6", "NV"),
    ],
)
def test_family_of_a_vm_size_is_its_letters_and_version(vm_size, name):
    assert family(vm_size) == name
