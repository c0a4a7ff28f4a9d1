"""A node's share of this machine: counted over its cluster, and said when a cluster is made."""

from __future__ import annotations

from dataclasses import replace

import pytest

from batchai_magics.backends.base.backend_registry import default_vm_size
from batchai_magics.backends.local import machine_devices, supervisor
from batchai_magics.backends.local.machine_devices import MachineDevices
from batchai_magics.config import Settings
from batchai_magics.models.cluster_spec import ClusterSpec
from tests.backends.local.still import Still, has_devices
from tests.contract.place import auto
from tests.wire_bodies import manual, plain_cluster


def spec(size: str, count: int, most: int | None = None) -> ClusterSpec:
    scale = manual(count) if most is None else auto(count, most)
    return ClusterSpec.from_wire(plain_cluster(vmSize=size, scaleSettings=scale))


@pytest.mark.parametrize(
    ("asked", "machine", "told"),
    [
        (
            spec("STANDARD_NC6", 2),
            MachineDevices(2),
            "All nodes share this machine's 2 cores and 0 GPUs; one of STANDARD_NC6 would have 6 and 1.",
        ),
        (
            spec("Standard_D2", 0, 4),
            MachineDevices(4),
            "All nodes share this machine's 4 cores and 0 GPUs; one of Standard_D2 would have 2 and 0.",
        ),
        (spec("Standard_NC24", 1), MachineDevices(24, ("0", "1", "2", "3")), ""),
        (spec("Standard_D2", 2), MachineDevices(4), ""),
        (spec("Standard_NC6", 0), MachineDevices(2), ""),
    ],
)
def test_note_has_the_real_hardware_if_it_differs_from_the_vm_size(
    asked: ClusterSpec, machine: MachineDevices, told: str
) -> None:
    assert "".join(machine_devices.hardware_notes(asked, machine)) == told


@pytest.mark.parametrize(
    ("gpus", "nodes", "size"),
    [
        ("0", 1, "Standard_NC6"),
        ("0", 2, "Standard_NC6"),
        ("0123", 2, "Standard_NC12"),
        ("012", 1, "Standard_NC12"),
        ("01234567", 2, "Standard_NC24"),
    ],
)
def test_the_default_cluster_has_the_gpus_of_its_machine(gpus, nodes, size, monkeypatch) -> None:
    has_devices(monkeypatch, 8, gpus)
    settings = Settings(cluster_nodes=nodes)
    assert default_vm_size(settings) == size
    assert default_vm_size(replace(settings, cluster_vm_size="Standard_D3")) == "Standard_D3"
    assert default_vm_size(replace(settings, backend="arm")) == settings.cluster_vm_size
    has_devices(monkeypatch, 8)
    assert default_vm_size(settings) == settings.cluster_vm_size


@pytest.mark.parametrize(
    ("said", "seen"),
    [
        (None, ("0", "1", "2")),
        ("", ()),
        ("2,0", ("2", "0")),
        ("0,-1,2", ("0",)),
        ("1,7", ("1",)),
        ("GPU-8932f937,MIG-1", ("GPU-8932f937", "MIG-1")),
    ],
)
def test_a_machine_has_the_gpus_that_its_user_may_use(said: str | None, seen: tuple[str, ...]) -> None:
    assert machine_devices.visible_gpus(3, said) == seen
    assert machine_devices.visible_gpus(0, said) == ()


@pytest.mark.slow
def test_thread_count_is_the_processs_share_of_its_nodes_cores(still: Still, monkeypatch) -> None:
    def bound(name: str, count: int = 1, **fields: object) -> list[tuple[str, str, str]]:
        """The variables of each node of a job that has got its nodes."""
        toolkit = {"customToolkitSettings": {"commandLine": "true", "batchaiProcessCount": 2 * count}}
        job = still.job(name, count, **toolkit, **fields)
        still.schedule()
        plan, _ = supervisor.bind(still.store, still.layout, still.state(job)["guid"])
        still.fail(job)
        names = ("OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
        return [tuple(node.env[name] for name in names) for node in plan.nodes]

    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    has_devices(monkeypatch, 16, "01")
    still.cluster()
    still.prepare()
    assert bound("one") == [("4", "0", "PCI_BUS_ID")]  # on one of two nodes
    assert bound("two", 2) == [("4", "0", "PCI_BUS_ID"), ("4", "1", "PCI_BUS_ID")]
    order = [{"name": "CUDA_DEVICE_ORDER", "value": "FASTEST_FIRST"}]
    assert bound("other", environmentVariables=order) == [("4", "0", "FASTEST_FIRST")]


def test_gpus_are_counted_by_their_device_files(tmp_path, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "null"):
        (tmp_path / name).touch()
    assert machine_devices.machine(str(tmp_path)).gpus == ("0", "1")


def test_a_machine_without_device_files_has_no_gpu(tmp_path):
    assert machine_devices.machine(str(tmp_path / "missing")).gpus == ()
