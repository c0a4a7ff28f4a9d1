"""What the GPUs of a job do, by what NVIDIA's driver tells through its own library, NVML, where that is.

https://docs.nvidia.com/deploy/nvml-api/: these few functions and structures have stood still for ten years,
so that a node needs no package for them. Processes are asked for by the function without a version: what its
later ones fill in has changed from driver to driver. On a GPU that is cut into instances (MIG) the driver
tells no use.

NVML counts GPUs by their places on the PCI bus, CUDA by their speed unless CUDA_DEVICE_ORDER says otherwise:
https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/environment-variables.html
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from batchai_magics.launch.plan import Plan

LIBRARY = "libnvidia-ml.so.1"
DRIVER = "/proc/driver/nvidia/version"  # there when the driver is
VISIBLE, ORDER, BY_BUS = "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "PCI_BUS_ID"
UUIDS = ("GPU-", "MIG-")  # what those of GPUs and of instances begin with
_UUID_BYTES = 96
PROCESSES, MOST_PROCESSES = 64, 4096  # on one GPU: those there is room for at first, and at most
_INSUFFICIENT_SIZE, _FUNCTION_NOT_FOUND = 7, 13
_NOT_KNOWN = 2**64 - 1  # memory of a process that the driver does not tell
_ERRORS = {
    3: "the driver does not support it",
    4: "this user may not ask the driver",
    9: "the driver is not loaded",
    15: "a GPU is lost",
    18: "library and driver are of different versions",
}


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class _Process(ctypes.Structure):
    _fields_ = (("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong))


class GpuSample(NamedTuple):
    """Index, use in percent if it is told, memory in bytes of each GPU; and the memory of processes there.

    Of a GPU that is cut into instances, the memory is that of the job's.
    """

    devices: list[list[int | None]]
    memory: dict[int, int]  # by pid


class Gpus:
    """The GPUs that a plan's nodes have. `note` says why they are not sampled; empty without any."""

    def __init__(self, plan: Plan) -> None:
        self.note = ""
        self._handles: list[tuple[int, ctypes.c_void_p]] = []  # each with the number of its GPU
        wanted, order = _wanted(plan), _of_job(plan, ORDER)
        if not wanted or not os.path.exists(DRIVER):  # noqa: PTH110 pathlib slows each rank
            return
        if order not in (set(), {BY_BUS}) and any(name.isdecimal() for name in wanted):
            self.note = f"GPUs are not sampled: the driver does not count them by {ORDER}={min(order)}"
            return
        try:
            self._open(wanted)
        except (OSError, AttributeError) as error:  # no library, or one that lacks a function
            self.note = f"GPUs are not sampled: {error}"

    def _open(self, wanted: Iterable[str]) -> None:
        self._nvml = ctypes.CDLL(LIBRARY)
        code = self._nvml.nvmlInit_v2()
        if code:
            self.note = f"GPUs are not sampled: {_ERRORS.get(code, f'NVML tells error {code}')}"
        else:
            self._handles = list(self._opened(wanted))

    def sample(self) -> GpuSample:
        """What they do just now; one that cannot be asked is left out."""
        rows: dict[int, list[int | None]] = {}
        taken: dict[int, int] = {}
        for number, handle in self._handles:
            use, memory = _Utilization(), _Memory()
            is_silent = self._ask("nvmlDeviceGetUtilizationRates", handle, ctypes.byref(use))
            if not self._ask("nvmlDeviceGetMemoryInfo", handle, ctypes.byref(memory)):
                _, _, before = rows.get(number, (0, 0, 0))
                rows[number] = [number, None if is_silent else use.gpu, (before or 0) + memory.used]
            for process in self._processes(handle):
                used = process.used if process.used != _NOT_KNOWN else 0
                taken[process.pid] = taken.get(process.pid, 0) + used
        return GpuSample(list(rows.values()), taken)

    def close(self) -> None:
        """Lets go of the driver."""
        if self._handles:
            self._ask("nvmlShutdown")

    def _ask(self, function: str, *values: Any) -> int:
        """The code that a function returns: 0 when it has done its work; also for one that is not there."""
        try:
            return int(getattr(self._nvml, function)(*values))
        except AttributeError:
            return _FUNCTION_NOT_FOUND

    def _opened(self, wanted: Iterable[str]) -> Iterator[tuple[int, ctypes.c_void_p]]:
        for name in wanted:
            handle = self._by_index(int(name)) if name.isdecimal() else self._by_uuid(name)
            if handle is None:
                continue
            number = int(name) if name.isdecimal() else self._number(handle)
            if number is not None:
                yield number, handle

    def _by_index(self, index: int) -> ctypes.c_void_p | None:
        handle = ctypes.c_void_p()
        failed = self._nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle))
        return None if failed else handle

    def _by_uuid(self, uuid: str) -> ctypes.c_void_p | None:
        """The GPU or the instance of that UUID; of a GPU's, the first digits are enough."""
        handle = ctypes.c_void_p()
        if not self._ask("nvmlDeviceGetHandleByUUID", uuid.encode(), ctypes.byref(handle)):
            return handle
        count, text = ctypes.c_uint(), ctypes.create_string_buffer(_UUID_BYTES)
        self._ask("nvmlDeviceGetCount_v2", ctypes.byref(count))
        for each in filter(None, map(self._by_index, range(count.value))):
            is_told = not self._ask("nvmlDeviceGetUUID", each, text, _UUID_BYTES)
            if is_told and text.value.decode().startswith(uuid):
                return each
        return None

    def _number(self, handle: ctypes.c_void_p) -> int | None:
        """The number of a GPU; of an instance, that of the GPU that it is a part of."""
        number, whole = ctypes.c_uint(), ctypes.c_void_p()
        if self._ask("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", handle, ctypes.byref(whole)):
            whole = handle
        return None if self._ask("nvmlDeviceGetIndex", whole, ctypes.byref(number)) else number.value

    def _processes(self, handle: ctypes.c_void_p) -> list[_Process]:
        room, code = PROCESSES, _INSUFFICIENT_SIZE
        while code == _INSUFFICIENT_SIZE and room <= MOST_PROCESSES:
            count, found = ctypes.c_uint(room), (_Process * room)()
            code = self._ask("nvmlDeviceGetComputeRunningProcesses", handle, ctypes.byref(count), found)
            room = max(2 * room, count.value)
        return [] if code else list(found[: count.value])


def named(visible: str) -> list[str]:
    """The numbers and UUIDs in a value of CUDA_VISIBLE_DEVICES; as CUDA does, it stops at a wrong one."""
    names: dict[str, None] = {}
    for name in map(str.strip, visible.split(",")):
        if not (name.isdecimal() or name.startswith(UUIDS)):
            break
        names[name] = None
    return list(names)


def _wanted(plan: Plan) -> list[str]:
    """The GPUs that the job's processes see."""
    return sorted({name for visible in _of_job(plan, VISIBLE) for name in named(visible)})


def _of_job(plan: Plan, variable: str) -> set[str]:
    """The values of a variable on the plan's nodes; where the plan sets none, a scheduler's own counts."""
    values = {node.env.get(variable, os.environ.get(variable, "")) for node in plan.nodes}
    return values - {""}
