"""Samples the GPUs of a job through NVIDIA's library NVML, if it is installed.

https://docs.nvidia.com/deploy/nvml-api/: these few functions and structures have been stable for ten years,
so a node needs no package for them. Processes are queried with the unversioned function, because the layout
of its later versions differs between drivers. On a GPU partitioned into instances (MIG) the driver reports no
utilization.

NVML orders GPUs by PCI bus, CUDA by speed unless CUDA_DEVICE_ORDER says otherwise:
https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/environment-variables.html
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from batchai_magics.launch.plan import Plan

if TYPE_CHECKING:
    from batchai_magics.records.preflight import GpuHealth

LIBRARY = "libnvidia-ml.so.1"
DRIVER = "/proc/driver/nvidia/version"  # exists if the driver is loaded
VISIBLE, ORDER, BY_BUS = "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "PCI_BUS_ID"
ALL = "MIG-all"  # stands for every GPU if no variable names any
UUIDS = ("GPU-", "MIG-")  # prefixes of the UUIDs of GPUs and of instances
_UUID_BYTES = 96
PROCESSES, MOST_PROCESSES = 64, 4096  # buffer size for processes on a GPU: initial, maximum
_INSUFFICIENT_SIZE, _FUNCTION_NOT_FOUND = 7, 13
_UNAVAILABLE = 2**64 - 1  # memory of a process that the driver does not report
_UNUSABLE = (15, 16)
_SLOWED = 0x8 | 0x20 | 0x40 | 0x80  # why clocks are low: slowdown, heat (twice), power brake
_CELSIUS, _UNCORRECTED, _SINCE_BOOT = 0, 1, 0
_MEMORY_FIELDS, _MEMORY_VERSION = ("total", "reserved", "free", "used"), 2 << 24
_ERRORS = {
    3: "the driver does not support it",
    4: "this user may not ask the driver",
    9: "the driver is not loaded",
    15: "a GPU is lost",
    16: "a GPU needs a reset",
    18: "library and driver are of different versions",
}


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Memory(ctypes.Structure):  # `used` without what the driver reserves; since driver 510
    _fields_ = (("version", ctypes.c_uint), *((name, ctypes.c_ulonglong) for name in _MEMORY_FIELDS))


class _OldMemory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class _Process(ctypes.Structure):
    _fields_ = (("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong))


class GpuSample(NamedTuple):
    """Index, utilization in percent (if known) and memory in bytes of each GPU, and memory by process.

    For a GPU partitioned into instances, the memory counts the job's instances.
    """

    devices: list[list[int | None]]
    memory: dict[int, int]  # by pid


class Gpus:
    """The GPUs visible to a plan's nodes, or to this process; `note` explains why they are not sampled."""

    def __init__(self, plan: Plan | None = None, *, driver: str = DRIVER, library: str = LIBRARY) -> None:
        self.note = ""
        self._handles: list[tuple[int, ctypes.c_void_p]] = []  # with GPU number
        if plan:
            visible, order = _plan_values(plan, VISIBLE), _plan_values(plan, ORDER)
            names = sorted({name for value in visible for name in device_names(value)})
        else:
            names, order = device_names(os.environ.get(VISIBLE, ALL)), {os.environ.get(ORDER, "")} - {""}
        if not names or not os.path.exists(driver):  # noqa: PTH110 pathlib slows each rank
            return
        if order not in (set(), {BY_BUS}) and any(name.isdecimal() for name in names):
            self.note = f"GPUs are not sampled: the driver does not count them by {ORDER}={min(order)}"
            return
        try:
            self._nvml = ctypes.CDLL(library)
            code = self._nvml.nvmlInit_v2()
            if code:
                self.note = f"GPUs are not sampled: {_ERRORS.get(code, f'NVML tells error {code}')}"
            else:
                self._handles = list(self._find_handles(names))
        except (OSError, AttributeError) as error:  # no library, or one without a required function
            self.note = f"GPUs are not sampled: {error}"

    def sample(self) -> GpuSample:
        """The current values; GPUs that cannot be queried are left out."""
        rows: dict[int, list[int | None]] = {}
        memory_by_pid: dict[int, int] = {}
        for number, handle in self._handles:
            use, (failed, memory) = _Utilization(), self._memory(handle)
            has_failed = self._call("nvmlDeviceGetUtilizationRates", handle, ctypes.byref(use))
            if not failed:
                _, _, sum_so_far = rows.get(number, (0, 0, 0))
                rows[number] = [number, None if has_failed else use.gpu, (sum_so_far or 0) + memory.used]
            capacity, code = PROCESSES, _INSUFFICIENT_SIZE
            while code == _INSUFFICIENT_SIZE and capacity <= MOST_PROCESSES:
                count, processes = ctypes.c_uint(capacity), (_Process * capacity)()
                buffer = (ctypes.byref(count), processes)
                code = self._call("nvmlDeviceGetComputeRunningProcesses", handle, *buffer)
                capacity = max(2 * capacity, count.value)
            for process in () if code else processes[: count.value]:
                used = process.used if process.used != _UNAVAILABLE else 0
                memory_by_pid[process.pid] = memory_by_pid.get(process.pid, 0) + used
        return GpuSample(list(rows.values()), memory_by_pid)

    def health(self) -> tuple[list[GpuHealth], str]:
        """The state of each GPU, and why some cannot be used; empty if there is no driver."""
        from batchai_magics.records.preflight import GpuHealth  # only a preflight needs it

        gpus, problems = [], [self.note] if self.note else []
        for number, handle in self._handles:
            celsius, errors, reasons = ctypes.c_uint(), ctypes.c_ulonglong(), ctypes.c_ulonglong()
            failed, memory = self._memory(handle)
            if failed in _UNUSABLE:
                problems.append(f"GPU {number}: {_ERRORS[failed]}")
                continue
            no_heat = self._call("nvmlDeviceGetTemperature", handle, _CELSIUS, ctypes.byref(celsius))
            counters = (_UNCORRECTED, _SINCE_BOOT, ctypes.byref(errors))
            no_ecc = self._call("nvmlDeviceGetTotalEccErrors", handle, *counters)
            self._call("nvmlDeviceGetCurrentClocksThrottleReasons", handle, ctypes.byref(reasons))
            health = GpuHealth(number, memory.total, memory.free)
            gpus.append(
                health._replace(
                    temperature_c=None if no_heat else celsius.value,
                    ecc_errors=None if no_ecc else errors.value,
                    is_slowed=bool(reasons.value & _SLOWED),
                )
            )
        return gpus, "; ".join(problems)

    def close(self) -> None:
        """Shuts NVML down."""
        if self._handles:
            self._call("nvmlShutdown")

    def _call(self, function: str, *values: Any) -> int:
        """Calls a function; returns its error code, 0 for success, or the one for a missing function."""
        try:
            return int(getattr(self._nvml, function)(*values))
        except AttributeError:
            return _FUNCTION_NOT_FOUND

    def _find_handles(self, names: Iterable[str]) -> Iterator[tuple[int, ctypes.c_void_p]]:
        if list(names) == [ALL]:
            count = ctypes.c_uint()
            self._call("nvmlDeviceGetCount_v2", ctypes.byref(count))
            names = map(str, range(count.value))
        for name in names:
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
        """The GPU or instance with that UUID; for a GPU, a prefix suffices."""
        handle = ctypes.c_void_p()
        if not self._call("nvmlDeviceGetHandleByUUID", uuid.encode(), ctypes.byref(handle)):
            return handle
        count, text = ctypes.c_uint(), ctypes.create_string_buffer(_UUID_BYTES)
        self._call("nvmlDeviceGetCount_v2", ctypes.byref(count))
        for candidate in filter(None, map(self._by_index, range(count.value))):
            is_read = not self._call("nvmlDeviceGetUUID", candidate, text, _UUID_BYTES)
            if is_read and text.value.decode().startswith(uuid):
                return candidate
        return None

    def _number(self, handle: ctypes.c_void_p) -> int | None:
        """The number of a GPU; for an instance, the number of its parent GPU."""
        number, parent = ctypes.c_uint(), ctypes.c_void_p()
        if self._call("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", handle, ctypes.byref(parent)):
            parent = handle
        return None if self._call("nvmlDeviceGetIndex", parent, ctypes.byref(number)) else number.value

    def _memory(self, handle: ctypes.c_void_p) -> tuple[int, _Memory | _OldMemory]:
        """The memory of a GPU, after an error code."""
        memory, old = _Memory(version=ctypes.sizeof(_Memory) | _MEMORY_VERSION), _OldMemory()
        if not self._call("nvmlDeviceGetMemoryInfo_v2", handle, ctypes.byref(memory)):
            return 0, memory
        return self._call("nvmlDeviceGetMemoryInfo", handle, ctypes.byref(old)), old


def device_names(visible: str) -> list[str]:
    """The numbers and UUIDs in CUDA_VISIBLE_DEVICES; like CUDA, it stops at the first invalid one."""
    names: dict[str, None] = {}
    for name in map(str.strip, visible.split(",")):
        if not (name.isdecimal() or name.startswith(UUIDS)):
            break
        names[name] = None
    return list(names)


def _plan_values(plan: Plan, variable: str) -> set[str]:
    """The values of a variable on the plan's nodes; if the plan does not set it, the scheduler's value."""
    values = {node.env.get(variable, os.environ.get(variable, "")) for node in plan.nodes}
    return values - {""}
