"""The spec of a cluster (the body of cluster.json), its patch and its node counts."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable
from typing import ClassVar

from pydantic import SecretStr, model_validator
from typing_extensions import Self

from batchai_magics.models.field_types import Count, Text
from batchai_magics.models.mount_volumes import (
    EnvironmentVariable,
    KeyVaultSecretReference,
    MountVolumes,
    ResourceRef,
    SecretVariable,
)
from batchai_magics.models.states import DeallocationOption, NodeState
from batchai_magics.models.wire_model import WireModel


class VmPriority(enum.Enum):
    """Whether nodes may be preempted."""

    DEDICATED = "dedicated"
    LOW_PRIORITY = "lowpriority"


class ManualScale(WireModel):
    """A fixed number of nodes."""

    target_node_count: Count
    node_deallocation_option: DeallocationOption = DeallocationOption.REQUEUE


class AutoScale(WireModel):
    """A number of nodes between minimum and maximum, following the queue."""

    minimum_node_count: Count
    maximum_node_count: Count
    initial_node_count: Count = 0

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.maximum_node_count < self.minimum_node_count:
            raise ValueError("Maximum nodes count must be greater or equal to minimum nodes count")
        if self.initial_node_count > self.maximum_node_count:
            raise ValueError("initialNodeCount must not be greater than maximumNodeCount")
        return self


class ScaleSettings(WireModel):
    """The number of nodes: either `manual` or `autoScale`."""

    manual: ManualScale | None = None
    auto_scale: AutoScale | None = None

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.manual is None) == (self.auto_scale is None):
            raise ValueError("give one of manual and autoScale")
        return self

    @property
    def max_nodes(self) -> int:
        """The largest number of nodes."""
        if self.auto_scale:
            return self.auto_scale.maximum_node_count
        return self.manual.target_node_count if self.manual else 0

    def with_room_for(self, count: int) -> ScaleSettings | None:
        """The settings changed to at least `count` nodes; None if they already suffice."""
        if self.manual:
            manual = self.manual.model_copy(update={"target_node_count": count})
            return None if self.manual.target_node_count >= count else ScaleSettings(manual=manual)
        assert self.auto_scale is not None, "it is one of the two"
        auto_scale = self.auto_scale.model_copy(update={"maximum_node_count": count})
        return None if self.auto_scale.maximum_node_count >= count else ScaleSettings(auto_scale=auto_scale)


class UserAccountSettings(WireModel):
    """The administrator's account on every node. The password is write-only."""

    admin_user_name: Text
    admin_user_ssh_public_key: str | None = None
    admin_user_password: SecretStr | None = None


class ImageReference(WireModel):
    """The nodes' operating system image."""

    publisher: Text
    offer: Text
    sku: Text
    version: str | None = None
    virtual_machine_image_id: str | None = None


class VirtualMachineConfiguration(WireModel):
    """The nodes' image."""

    image_reference: ImageReference | None = None


class SetupTask(WireModel):
    """A command run on every node before it accepts jobs; as root with `runElevated`."""

    command_line: Text
    run_elevated: bool | None = None
    environment_variables: tuple[EnvironmentVariable, ...] | None = None
    secrets: tuple[SecretVariable, ...] | None = None
    std_out_err_path_prefix: Text
    std_out_err_path_suffix: str | None = None


class AppInsightsReference(WireModel):
    """The destination of performance counters."""

    component: ResourceRef
    instrumentation_key: SecretStr | None = None
    instrumentation_key_secret_reference: KeyVaultSecretReference | None = None


class PerformanceCountersSettings(WireModel):
    """Performance counters of the nodes."""

    app_insights_reference: AppInsightsReference


class NodeSetup(WireModel):
    """Preparation of every node before it accepts jobs."""

    setup_task: SetupTask | None = None
    mount_volumes: MountVolumes | None = None
    performance_counters_settings: PerformanceCountersSettings | None = None


class ClusterSpec(WireModel):
    """The content of cluster.json (ClusterCreateParameters of the 2018-05-01 API)."""

    what: ClassVar[str] = "the cluster description"
    wrapper: ClassVar[str] = "properties"
    kind: ClassVar[str] = "cluster"

    vm_size: Text
    vm_priority: VmPriority = VmPriority.DEDICATED
    scale_settings: ScaleSettings | None = None
    virtual_machine_configuration: VirtualMachineConfiguration | None = None
    user_account_settings: UserAccountSettings
    node_setup: NodeSetup | None = None
    subnet: ResourceRef | None = None

    @property
    def target_node_count(self) -> int:
        """The number of nodes to start with; 0 without scale settings."""
        scale = self.scale_settings
        if scale is None:
            return 0
        if scale.manual:
            return scale.manual.target_node_count
        assert scale.auto_scale is not None, "ScaleSettings holds one of the two"
        return max(scale.auto_scale.initial_node_count, scale.auto_scale.minimum_node_count)


class ClusterPatch(WireModel):
    """A change of a cluster's scale settings."""

    what: ClassVar[str] = "the change of the cluster"
    wrapper: ClassVar[str] = "properties"
    kind: ClassVar[str] = "cluster"

    scale_settings: ScaleSettings


class NodeStateCounts(WireModel):
    """The number of nodes in each state, in the service's field order."""

    running_node_count: int = 0
    idle_node_count: int = 0
    unusable_node_count: int = 0
    preparing_node_count: int = 0
    leaving_node_count: int = 0
    preempted_node_count: int | None = None  # only where the backend reports it

    @classmethod
    def counting(cls, states: Iterable[NodeState]) -> NodeStateCounts:
        """The counts of these states, one item for each node."""
        counts = Counter(f"{state.value}_node_count" for state in states)
        return cls(**counts)

    def of(self, state: NodeState) -> int:
        """The number of nodes in a state."""
        count: int | None = getattr(self, f"{state.value}_node_count")
        return count or 0

    @property
    def total(self) -> int:
        """The number of all nodes."""
        return sum(self.of(state) for state in NodeState)
