"""GPUs, by the driver's library: here one that was compiled for the test, with two GPUs."""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from batchai_magics.backends.node.ranks.gpus import Gpus
from batchai_magics.launch.plan import LogPaths, Output, Plan, PlanNode
from batchai_magics.records.preflight import GpuHealth

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("cc"), reason="there is no compiler for C"),
]
RESERVED = 644_939_776  # bytes of an H200 that its driver 580.159.04 keeps for itself
LIBRARY = """
#include <string.h>
static char handles[2], instances[3];
static const char *uuids[] = {"GPU-8932f937-d72c", "GPU-11aa22bb-0001"};
static const char *parts[] = {"MIG-a", "MIG-b", "MIG-c"};
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return 0; }
int nvmlDeviceGetHandleByUUID(const char *uuid, void **handle) {
  for (int i = 0; i < 2; i++) if (!strcmp(uuid, uuids[i])) { *handle = &handles[i]; return 0; }
  for (int i = 0; i < 3; i++) if (!strcmp(uuid, parts[i])) { *handle = &instances[i]; return 0; }
  return 6;
}
int nvmlDeviceGetUUID(void *handle, char *text, unsigned size) {
  strncpy(text, uuids[(char *)handle - handles], size);
  return 0;
}
int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void *handle, void **whole) {
  for (int i = 0; i < 3; i++) if (handle == &instances[i]) { *whole = &handles[i / 2]; return 0; }
  return 2;
}
int nvmlDeviceGetIndex(void *handle, unsigned *index) { *index = (char *)handle - handles; return 0; }
static int is_part(void *handle) { return (char *)handle >= instances && (char *)handle < instances + 3; }
int nvmlInit_v2(void) { return INIT; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **handle) {
  if (i > 1) return 2;
  *handle = &handles[i];
  return 0;
}
struct use { unsigned gpu, memory; };
int nvmlDeviceGetUtilizationRates(void *handle, struct use *use) {
  if (MIG || is_part(handle)) return 3;
  use->gpu = handle == &handles[0] ? 97 : 3;
  return 0;
}
struct memory { unsigned long long total, free, used; };
int nvmlDeviceGetMemoryInfo(void *handle, struct memory *memory) {
  if (handle == &handles[1] && MIG) return 4;
  if (handle == &handles[1] && LOST) return 15;
  memory->total = 80ull << 30;
  memory->free = 75ull << 30;
  memory->used = ((is_part(handle) ? 1ull : 5ull) << 30) + RESERVED;
  return 0;
}
#if !OLD
struct memory_v2 { unsigned version; unsigned long long total, reserved, free, used; };
int nvmlDeviceGetMemoryInfo_v2(void *handle, struct memory_v2 *memory) {
  struct memory old;
  if (memory->version != 33554472) return 25;
  int failed = nvmlDeviceGetMemoryInfo(handle, &old);
  memory->total = old.total;
  memory->reserved = RESERVED;
  memory->free = old.free;
  memory->used = old.used - RESERVED;
  return failed;
}
#endif
int nvmlDeviceGetTemperature(void *handle, int sensor, unsigned *celsius) {
  if (handle == &handles[1]) return 3;
  *celsius = 71;
  return 0;
}
int nvmlDeviceGetTotalEccErrors(void *handle, int kind, int since, unsigned long long *count) {
  *count = kind == 1 && since == 0 ? 2 : 99;
  return 0;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void *handle, unsigned long long *reasons) {
  *reasons = handle == &handles[0] ? 0x41 : 0x1;
  return 0;
}
struct process { unsigned pid; unsigned long long used; };
#if !OLD
int nvmlDeviceGetComputeRunningProcesses(void *handle, unsigned *count, struct process *found) {
  unsigned room = *count;
  *count = MANY ? MANY : 2;
  if (room < *count) return 7;
  for (unsigned i = 0; i < *count; i++) {
    found[i].pid = 42 + i;
    found[i].used = i == 1 ? ~0ull : 1ull << 30;
  }
  return 0;
}
#endif
"""


def plan(devices: str | None, **env: str) -> Plan:
    visible = {} if devices is None else {"CUDA_VISIBLE_DEVICES": devices}
    node = PlanNode("n0", "/", "/tmp", {**visible, **env})
    return Plan("g", (node,), (), Output(LogPaths(""), LogPaths("")), exits="", python="")


@pytest.fixture
def driver(tmp_path: Path) -> Path:
    """A machine with a driver: where its library is to be."""
    (tmp_path / "version").write_text("NVRM")
    return tmp_path / "libnvidia-ml.so.1"


def gpus_of(driver: Path, plan: Plan | None = None) -> Gpus:
    return Gpus(plan, driver=str(driver.with_name("version")), library=str(driver))


@functools.cache
def _library(*defines: str) -> bytes:
    """The library, which each of its kinds is compiled for once."""
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "library.c"), Path(folder, "library.so")
        source.write_text(LIBRARY)
        subprocess.run(["cc", "-shared", "-fPIC", *defines, "-o", made, source], check=True)
        return made.read_bytes()


def compiled(
    library: Path, *, init: int = 0, mig: int = 0, many: int = 0, old: int = 0, lost: int = 0
) -> None:
    meant = {"INIT": init, "MIG": mig, "MANY": many, "OLD": old, "LOST": lost, "RESERVED": RESERVED}
    library.write_bytes(_library(*(f"-D{name}={value}" for name, value in meant.items())))


def test_a_machine_without_a_driver_has_none_and_no_problem(driver):
    driver.with_name("version").unlink()
    found = gpus_of(driver, plan("0"))
    assert (found.note, found.sample(), found.health()) == ("", ([], {}), ([], ""))
    found.close()


def test_a_driver_without_its_library_is_told(driver):
    assert "GPUs are not sampled" in gpus_of(driver, plan("0")).note
    assert "libnvidia-ml.so.1" in gpus_of(driver, plan("0")).note


def test_each_gpu_of_the_job_is_told_with_the_memory_of_processes(driver):
    compiled(driver)
    found = gpus_of(driver, plan("0,1"))
    devices, memory = found.sample()
    assert devices == [[0, 97, 5 << 30], [1, 3, 5 << 30]]
    assert memory == {42: 2 << 30, 43: 0}
    found.close()
    assert gpus_of(driver, plan("1,7")).sample().devices == [[1, 3, 5 << 30]]
    assert gpus_of(driver, plan("")).sample().devices == []


@pytest.mark.parametrize(
    ("visible", "devices"),
    [
        ("GPU-11aa22bb-0001", [[1, 3, 5 << 30]]),
        ("GPU-11aa", [[1, 3, 5 << 30]]),  # as CUDA, which takes the first digits that are enough
        ("GPU-nobody", []),
        ("GPU-8932f937-d72c,1", [[1, 3, 5 << 30], [0, 97, 5 << 30]]),
        ("1,-1,0", [[1, 3, 5 << 30]]),  # as CUDA, which ends at a wrong one
        ("NoDevFiles", []),
        ("MIG-c", [[1, None, 1 << 30]]),
        ("MIG-a,MIG-b", [[0, None, 2 << 30]]),  # two instances of one GPU
    ],
)
def test_gpus_and_instances_are_found_by_their_cuda_names(driver, visible, devices):
    compiled(driver)
    assert gpus_of(driver, plan(visible)).sample().devices == devices


def test_gpus_of_the_scheduler_count_if_the_plan_names_none(driver, monkeypatch):
    compiled(driver)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert gpus_of(driver, plan(None)).sample().devices == [[1, 3, 5 << 30]]
    assert gpus_of(driver, plan("")).sample().devices == []


def test_an_order_that_the_driver_does_not_know_is_told_and_no_other_gpu_is_sampled(driver):
    compiled(driver)
    fastest = gpus_of(driver, plan("1", CUDA_DEVICE_ORDER="FASTEST_FIRST"))
    assert (fastest.sample().devices, "CUDA_DEVICE_ORDER=FASTEST_FIRST" in fastest.note) == ([], True)
    by_bus = gpus_of(driver, plan("1", CUDA_DEVICE_ORDER="PCI_BUS_ID"))
    assert (by_bus.sample().devices, by_bus.note) == ([[1, 3, 5 << 30]], "")
    by_uuid = gpus_of(driver, plan("GPU-11aa22bb-0001", CUDA_DEVICE_ORDER="FASTEST_FIRST"))
    assert (by_uuid.sample().devices, by_uuid.note) == ([[1, 3, 5 << 30]], "")


def test_a_library_that_refuses_is_told_in_words(driver):
    compiled(driver, init=18)
    found = gpus_of(driver, plan("0"))
    assert found.note == "GPUs are not sampled: library and driver are of different versions"
    assert found.sample().devices == []


def test_a_gpu_that_is_cut_into_instances_has_no_use_that_is_told(driver):
    compiled(driver, mig=1)
    assert gpus_of(driver, plan("0,1")).sample().devices == [[0, None, 5 << 30]]


def test_more_processes_than_there_was_room_for_are_all_counted(driver):
    compiled(driver, many=300)
    assert len(gpus_of(driver, plan("0")).sample().memory) == 300


def test_an_old_driver_library_gives_the_values_that_it_has(driver):
    compiled(driver, old=1)
    assert gpus_of(driver, plan("0")).sample() == ([[0, 97, (5 << 30) + RESERVED]], {})


def test_a_file_that_is_no_driver_library_is_reported(driver):
    source = driver.with_suffix(".c")
    source.write_text("int nothing;")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", driver, source], check=True)
    found = gpus_of(driver, plan("0"))
    assert "nvmlInit_v2" in found.note
    assert found.sample() == ([], {})
    found.close()


def test_the_health_of_all_gpus_is_told_where_no_variable_names_some(driver, monkeypatch):
    compiled(driver)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    first = GpuHealth(0, 80 << 30, 75 << 30, temperature_c=71, ecc_errors=2, is_slowed=True)
    second = GpuHealth(1, 80 << 30, 75 << 30, ecc_errors=2)
    assert gpus_of(driver).health() == ([first, second], "")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert gpus_of(driver).health() == ([second], "")


def test_a_lost_gpu_and_a_library_that_refuses_are_problems(driver, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    compiled(driver, lost=1)
    found, problem = gpus_of(driver).health()
    assert ([gpu.number for gpu in found], problem) == ([0], "GPU 1: a GPU is lost")
