"""What the GPUs of a job do, by what NVIDIA's driver tells through its own library, NVML, where that is.

https://docs.nvidia.com/deploy/nvml-api/: these few functions and structures have stood still for ten years,
so that a node needs no package for them.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from typing import NamedTuple

from batchai_magics.launch.plan import Plan

LIBRARY = "libnvidia-ml.so.1"
DRIVER = "/proc/driver/nvidia/version"  # there when the driver is
MOST_PROCESSES = 256  # on one GPU
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
    """Index, use in percent, memory in bytes of each GPU; and the memory that processes have there."""

    devices: list[list[int]]
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
        except OSError as error:
            self.note = f"GPUs are not sampled: {error}"
            return
        code = self._nvml.nvmlInit_v2()
        if code:
            self.note = f"GPUs are not sampled: {_ERRORS.get(code, f'NVML tells error {code}')}"
            return
        self._handles = dict(self._opened(wanted))

    def sample(self) -> GpuSample:
        """What they do just now; one that cannot be asked is left out."""
        sample = GpuSample([], {})
        for index, handle in self._handles.items():
            use, memory = _Utilization(), _Memory()
            self._nvml.nvmlDeviceGetUtilizationRates(handle, ctypes.byref(use))  # 0 for a share of a GPU
            if not self._nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)):
                sample.devices.append([index, use.gpu, memory.used])
            for process in self._processes(handle):
                used = process.used if process.used != _NOT_KNOWN else 0
                sample.memory[process.pid] = sample.memory.get(process.pid, 0) + used
        return sample

    def close(self) -> None:
        """Lets go of the driver."""
        if self._handles:
            self._nvml.nvmlShutdown()

    def _opened(self, wanted: set[int]) -> Iterator[tuple[int, ctypes.c_void_p]]:
        for index in sorted(wanted):
            handle = ctypes.c_void_p()
            if not self._nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)):
                yield index, handle

    def _processes(self, handle: ctypes.c_void_p) -> list[_Process]:
        count, found = ctypes.c_uint(MOST_PROCESSES), (_Process * MOST_PROCESSES)()
        failed = self._nvml.nvmlDeviceGetComputeRunningProcesses(handle, ctypes.byref(count), found)
        return [] if failed else list(found[: count.value])


def _devices(plan: Plan) -> set[int]:
    """The numbers of the GPUs that the job's processes see."""
    texts = [node.env.get("CUDA_VISIBLE_DEVICES", "") for node in plan.nodes]
    return {int(number) for text in texts for number in text.split(",") if number.strip().isdecimal()}
