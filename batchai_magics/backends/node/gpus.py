"""What the GPUs of a job do, by what NVIDIA's driver tells through its own library, NVML, where that is.

https://docs.nvidia.com/deploy/nvml-api/: these few functions and structures have stood still for ten years,
so that a node needs no package for them. Processes are asked for by the function without a version: what its
later ones fill in has changed from driver to driver. On a GPU that is cut into instances (MIG) the driver
tells no use.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

from batchai_magics.launch.plan import Plan

LIBRARY = "libnvidia-ml.so.1"
DRIVER = "/proc/driver/nvidia/version"  # there when the driver is
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
    """Index, use in percent if it is told, memory in bytes of each GPU; and the memory of processes there."""

    devices: list[list[int | None]]
    memory: dict[int, int]  # by pid


class Gpus:
    """The GPUs that a plan's nodes have. `note` says why they are not sampled; empty without any."""

    def __init__(self, plan: Plan) -> None:
        self.note = ""
        self._handles: dict[int, ctypes.c_void_p] = {}
        wanted = _devices(plan)
        if not wanted or not os.path.exists(DRIVER):  # noqa: PTH110 pathlib slows each rank
            return
        try:
            self._nvml = ctypes.CDLL(LIBRARY)
            code = self._nvml.nvmlInit_v2()
            self._handles = {} if code else dict(self._opened(wanted))
        except (OSError, AttributeError) as error:  # no library, or one that lacks a function
            self.note = f"GPUs are not sampled: {error}"
            return
        if code:
            self.note = f"GPUs are not sampled: {_ERRORS.get(code, f'NVML tells error {code}')}"

    def sample(self) -> GpuSample:
        """What they do just now; one that cannot be asked is left out."""
        sample = GpuSample([], {})
        for index, handle in self._handles.items():
            use, memory = _Utilization(), _Memory()
            is_silent = self._ask("nvmlDeviceGetUtilizationRates", handle, ctypes.byref(use))
            if not self._ask("nvmlDeviceGetMemoryInfo", handle, ctypes.byref(memory)):
                sample.devices.append([index, None if is_silent else use.gpu, memory.used])
            for process in self._processes(handle):
                used = process.used if process.used != _NOT_KNOWN else 0
                sample.memory[process.pid] = sample.memory.get(process.pid, 0) + used
        return sample

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

    def _opened(self, wanted: set[int]) -> Iterator[tuple[int, ctypes.c_void_p]]:
        for index in sorted(wanted):
            handle = ctypes.c_void_p()
            if not self._nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)):
                yield index, handle

    def _processes(self, handle: ctypes.c_void_p) -> list[_Process]:
        room, code = PROCESSES, _INSUFFICIENT_SIZE
        while code == _INSUFFICIENT_SIZE and room <= MOST_PROCESSES:
            count, found = ctypes.c_uint(room), (_Process * room)()
            code = self._ask("nvmlDeviceGetComputeRunningProcesses", handle, ctypes.byref(count), found)
            room = max(2 * room, count.value)
        return [] if code else list(found[: count.value])


def _devices(plan: Plan) -> set[int]:
    """The numbers of the GPUs that the job's processes see."""
    texts = [node.env.get("CUDA_VISIBLE_DEVICES", "") for node in plan.nodes]
    return {int(number) for text in texts for number in text.split(",") if number.strip().isdecimal()}
