"""The GPUs and cores of this machine, and how its nodes share them."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from batchai_magics.models.cluster_spec import ClusterSpec


class MachineDevices(NamedTuple):
    """The cores that this process may use, and its NVIDIA GPUs as `CUDA_VISIBLE_DEVICES` names them."""

    core_count: int
    gpus: tuple[str, ...] = ()

    def core_share(self, node_count: int) -> int:
        """Cores per node; at least one, shared if there are too few."""
        return max(1, self.core_count // max(1, node_count))

    def gpu_share(self, position: int, node_count: int) -> tuple[str, ...]:
        """The GPUs of the node at a position (from 0); nodes share them if there are too few."""
        share = self.gpus[position % max(1, node_count) :: max(1, node_count)]
        return share or self.gpus[position % len(self.gpus) :][:1] if self.gpus else ()

    def vm_size(self, node_count: int) -> str:
        """The first VM size with as many GPUs as each of that many nodes gets, or with the most below."""
        from batchai_magics.models.vm_sizes import SIZES  # supervisors need none

        count = len(self.gpu_share(max(1, node_count) - 1, node_count))
        return max((size for size in SIZES.values() if size.gpus <= count), key=lambda size: size.gpus).name


def machine(devices: str = "/dev") -> MachineDevices:
    """This machine, whose device files are in that folder; one without has no GPU."""
    try:
        core_count = len(os.sched_getaffinity(0))
    except AttributeError:  # macOS has no CPU affinity
        core_count = os.cpu_count() or 1
    names: list[str] = []
    with suppress(OSError):  # Windows has no such folder
        names = os.listdir(devices)  # noqa: PTH208  pathlib takes a millisecond
    count = sum(name.startswith("nvidia") and name.removeprefix("nvidia").isdigit() for name in names)
    return MachineDevices(core_count, visible_gpus(count, os.environ.get("CUDA_VISIBLE_DEVICES")))


def visible_gpus(count: int, setting: str | None) -> tuple[str, ...]:
    """The GPUs this process may use, of a machine with `count`; `setting` is its `CUDA_VISIBLE_DEVICES`.

    Device files do not tell CUDA's numbers: a container may have `nvidia3` alone.
    """
    everything = tuple(map(str, range(count)))
    if setting is None or not count:
        return everything
    from batchai_magics.backends.node.ranks.gpus import device_names  # it loads ctypes

    return tuple(name for name in device_names(setting) if name in everything or not name.isdecimal())


def hardware_notes(spec: ClusterSpec, devices: MachineDevices) -> tuple[str, ...]:
    """A sentence about the actual hardware of a cluster's nodes if it differs from their VM size."""
    from batchai_magics.models.vm_sizes import lookup

    auto = spec.scale_settings.auto_scale if spec.scale_settings else None
    count = auto.maximum_node_count if auto else spec.target_node_count
    size, gpu_count = lookup(spec.vm_size), len(devices.gpus)
    if not count or (devices.core_share(count), gpu_count) == (size.vcpus, size.gpus * count):
        return ()
    text = f"All nodes share this machine's {devices.core_count} cores and {gpu_count} GPUs; one of"
    return (f"{text} {spec.vm_size} would have {size.vcpus} and {size.gpus}.",)
