"""Validates GPU telemetry and GPU assignment on a machine with NVIDIA GPUs: `python -m benchmarks.gpu`.

Real jobs load the GPUs through the driver's own API and a kernel in PTX, without the CUDA toolkit. Their
telemetry is set side by side with `nvidia-smi`: use and memory of each GPU, memory of each rank. Two ranks
share one GPU, and two nodes must not. The exit code is 1 if anything disagrees; without a GPU it is 0.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pandas

LOAD_MIB = 512
LOAD_S = 40.0  # longer than all samples of a slow nvidia-smi take
MEMORY_TOLERANCE_MIB = 64.0
USE_TOLERANCE_PERCENT = 15.0
DRIVER = Path("/proc/driver/nvidia/version")
_GPU_FIELDS = "index,uuid,name,utilization.gpu,memory.used,mig.mode.current"
_THREADS, _BLOCKS, _ROUNDS = 256, 512, 200_000
_PTX = b"""
.version 6.3
.target sm_70
.address_size 64
.visible .entry spin(.param .u64 out, .param .u32 rounds)
{
    .reg .pred %p1;
    .reg .f32 %f<3>;
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [rounds];
    mov.u32 %r2, %tid.x;
    cvt.rn.f32.u32 %f1, %r2;
    mov.f32 %f2, 0f3F7FFFFE;
    mov.u32 %r3, 0;
LOOP:
    fma.rn.f32 %f1, %f1, %f2, %f2;
    add.u32 %r3, %r3, 1;
    setp.lt.u32 %p1, %r3, %r1;
    @%p1 bra LOOP;
    cvta.to.global.u64 %rd2, %rd1;
    mul.wide.u32 %rd3, %r2, 4;
    add.u64 %rd2, %rd2, %rd3;
    st.global.f32 [%rd2], %f1;
    ret;
}
\0"""


@dataclass(frozen=True)
class SmiGpu:
    """A GPU, as nvidia-smi reports it; None is what the driver does not tell."""

    index: int
    uuid: str
    name: str
    percent: float | None
    memory_mib: float | None
    has_mig: bool


@dataclass(frozen=True)
class Comparison:
    """Our number beside that of nvidia-smi."""

    what: str
    ours: float | None
    theirs: float | None
    tolerance: float
    unit: str

    @property
    def agrees(self) -> bool:
        """Whether both know it and are close, or neither knows it."""
        if self.ours is None or self.theirs is None:
            return self.ours is None and self.theirs is None
        return abs(self.ours - self.theirs) <= self.tolerance

    @property
    def line(self) -> str:
        """The comparison as text."""
        verdict = "ok" if self.agrees else "DIFFERS"
        ours, theirs = _text(self.ours, self.unit), _text(self.theirs, self.unit)
        return f"{self.what:<34} {ours:>12} {theirs:>12}  {verdict}"


def parse_gpus(text: str) -> list[SmiGpu]:
    """Reads `nvidia-smi --query-gpu` with the fields that are queried here, as CSV without units."""
    rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines() if line.strip()]
    return [
        SmiGpu(int(index), uuid, name, _number(percent), _number(memory), mig == "Enabled")
        for index, uuid, name, percent, memory, mig in rows
    ]


def parse_apps(text: str) -> dict[int, float]:
    """Reads `nvidia-smi --query-compute-apps=pid,used_memory`: MiB by pid, summed over GPUs."""
    memory: dict[int, float] = {}
    for line in text.splitlines():
        pid, _, used = (cell.strip() for cell in line.partition(","))
        if pid.isdecimal() and (mib := _number(used)) is not None:
            memory[int(pid)] = memory.get(int(pid), 0.0) + mib
    return memory


def compare_gpus(ours: Mapping[int, Mapping[str, float]], theirs: Iterable[SmiGpu]) -> Iterator[Comparison]:
    """Our telemetry (`percent` and `memory_mib` by GPU number) beside nvidia-smi; MIG has no utilization."""
    for gpu in theirs:
        own, label = ours.get(gpu.index, {}), f"GPU {gpu.index}"
        if not gpu.has_mig:
            use = own.get("percent"), gpu.percent
            yield Comparison(f"{label} use", *use, USE_TOLERANCE_PERCENT, "%")
            memory = own.get("memory_mib"), gpu.memory_mib
            yield Comparison(f"{label} memory", *memory, MEMORY_TOLERANCE_MIB, "MiB")


def compare_ranks(
    ours: Mapping[int, float], pids: Mapping[int, int], theirs: Mapping[int, float]
) -> Iterator[Comparison]:
    """The memory of each rank (MiB) beside that of its process; `pids` has the process of each rank."""
    for rank, pid in sorted(pids.items()):
        what = f"rank {rank} memory"
        yield Comparison(what, ours.get(rank), theirs.get(pid), MEMORY_TOLERANCE_MIB, "MiB")


def sharing_problem(uuids: Sequence[str], *, is_shared: bool) -> str:
    """Why the GPUs of two ranks are not as they must be; empty if they are."""
    if len(uuids) != 2:
        return f"expected two ranks with a GPU, found {len(uuids)}"
    if (uuids[0] == uuids[1]) is is_shared:
        return ""
    return f"two ranks that {'share' if is_shared else 'must not share'} a GPU have {uuids[0]} and {uuids[1]}"


def _number(text: str) -> float | None:
    """The number in a cell; None for `[N/A]`, `[Not Supported]` and the like."""
    try:
        return float(text)
    except ValueError:
        return None


def _text(value: float | None, unit: str) -> str:
    return "unknown" if value is None else f"{value:,.0f} {unit}"


class CudaDevice:
    """The first visible GPU, through the driver's API."""

    def __init__(self) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        self._call("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self._call("cuDeviceGet", ctypes.byref(device), 0)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._call("cuCtxSetCurrent", context)
        self._device = device

    @property
    def uuid(self) -> str:
        """Its UUID, in the form of nvidia-smi."""
        raw = (ctypes.c_ubyte * 16)()
        self._call("cuDeviceGetUuid", ctypes.byref(raw), self._device)
        text = bytes(raw).hex()
        return "GPU-" + "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))

    def load(self, mib: int, seconds: float) -> None:
        """Allocates memory, and keeps all multiprocessors busy for a while."""
        memory, module, kernel = ctypes.c_uint64(), ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(mib << 20))
        self._call("cuModuleLoadData", ctypes.byref(module), _PTX)
        self._call("cuModuleGetFunction", ctypes.byref(kernel), module, b"spin")
        rounds = ctypes.c_uint32(_ROUNDS)
        values = (ctypes.c_void_p * 2)(
            ctypes.cast(ctypes.byref(memory), ctypes.c_void_p),
            ctypes.cast(ctypes.byref(rounds), ctypes.c_void_p),
        )
        shape = (_BLOCKS, 1, 1, _THREADS, 1, 1, 0)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._call("cuLaunchKernel", kernel, *shape, None, values, None)
            self._call("cuCtxSynchronize")

    def _call(self, function: str, *values: object) -> None:
        code = getattr(self._cuda, function)(*values)
        if code:
            raise OSError(f"{function} returned CUDA error {code}")


def load_rank() -> None:
    """In a job: says which process loads which GPU, then loads it."""
    device = CudaDevice()
    facts = {"rank": int(os.environ["PMI_RANK"]), "pid": os.getpid(), "uuid": device.uuid}
    print("gpu-rank " + json.dumps(facts), flush=True)
    device.load(LOAD_MIB, LOAD_S)


class GpuJobs:
    """Runs the load in jobs of a local backend, in its own home."""

    def __init__(self, home: Path) -> None:
        from batchai_magics.backends.local.backend import LocalBackend
        from batchai_magics.backends.local.settings import LocalSettings
        from batchai_magics.config import Settings

        own = LocalSettings(home=home)
        # a size with one GPU a node: two processes on one node share it, two nodes have one each
        self._settings = Settings(sections={"local": own}, cluster_nodes=2, cluster_vm_size="Standard_NC6")
        self._backend = LocalBackend(own)

    def start(self, line: str):
        """Submits the load."""
        from batchai_magics import cell
        from batchai_magics.jobs.submit import submit

        script = f"import sys\nsys.path.insert(0, {str(Path(__file__).parents[1])!r})\n"
        script += "from benchmarks.gpu import load_rank\nload_rank()\n"
        return submit(self._backend, cell.parse(line, script, settings=self._settings), self._settings).job

    def close(self) -> None:
        """Closes the backend."""
        self._backend.close()


def ranks_in(log: str) -> list[dict[str, object]]:
    """What the ranks of a load said of themselves, in the order of ranks."""
    lines = [line.partition("gpu-rank ")[2] for line in log.splitlines() if "gpu-rank " in line]
    return sorted((json.loads(line) for line in lines), key=lambda facts: facts["rank"])


def _smi(query: str) -> str:
    words = ["nvidia-smi", f"--query-{query}", "--format=csv,noheader,nounits"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def _measured(job) -> list[Comparison]:
    """Telemetry of a running job beside nvidia-smi: medians over the middle of the load."""
    while len(ranks_in(job.log())) < 2 and not job.is_done:
        time.sleep(0.2)
    time.sleep(3.0)
    gpus, apps = [], {}
    began = time.time()
    for _ in range(8):
        gpus.append(parse_gpus(_smi(f"gpu={_GPU_FIELDS}")))
        apps = parse_apps(_smi("compute-apps=pid,used_memory")) or apps
        time.sleep(1.0)
    table = job.telemetry()
    table = table[table["time"] >= pandas.Timestamp(began, unit="s", tz="UTC")]
    facts = ranks_in(job.log())
    used = {str(each["uuid"]) for each in facts}
    theirs = [_middle(samples) for samples in zip(*gpus, strict=True) if samples[0].uuid in used]
    pids = {int(str(each["rank"])): int(str(each["pid"])) for each in facts}
    return [
        *compare_gpus(_of_gpus(table), theirs),
        *compare_ranks(_of_ranks(table), pids, apps),
    ]


def _middle(samples: Sequence[SmiGpu]) -> SmiGpu:
    def middle(values: Iterable[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return median(known) if known else None

    first = samples[0]
    percent, memory = middle(s.percent for s in samples), middle(s.memory_mib for s in samples)
    return SmiGpu(first.index, first.uuid, first.name, percent, memory, first.has_mig)


def _of_gpus(table) -> dict[int, dict[str, float]]:
    rows = table[table["gpu"].notna() & table["rank"].isna()]
    return {
        int(number): {
            "percent": float(group["gpu_percent"].median()),
            "memory_mib": float(group["gpu_memory_bytes"].median()) / (1 << 20),
        }
        for number, group in rows.groupby("gpu")
    }


def _of_ranks(table) -> dict[int, float]:
    rows = table[table["rank"].notna()]
    medians = rows.groupby("rank")["gpu_memory_bytes"].median() / (1 << 20)
    return {int(rank): float(value) for rank, value in medians.items()}


def _checked(jobs: GpuJobs, name: str, line: str, *, is_shared: bool) -> bool:
    """Runs one load, prints what was measured, and returns whether all of it is right."""
    print(f"\n{name}\n{'':<34} {'telemetry':>12} {'nvidia-smi':>12}")
    job = jobs.start(line)
    compared = _measured(job)
    job.wait()
    problem = sharing_problem([str(each["uuid"]) for each in ranks_in(job.log())], is_shared=is_shared)
    for comparison in compared:
        print(comparison.line)
    print(problem or f"the two ranks {'share one GPU' if is_shared else 'have a GPU each'}: ok")
    if job.state.value != "succeeded":
        print(job.log(20, file="stderr.txt"))
    return not problem and bool(compared) and all(comparison.agrees for comparison in compared)


def main() -> int:
    """Prints the comparisons; returns the exit code."""
    if not DRIVER.exists() or not shutil.which("nvidia-smi"):
        print("no GPU here: the NVIDIA driver or nvidia-smi is missing")
        return 0
    gpus = parse_gpus(_smi(f"gpu={_GPU_FIELDS}"))
    for gpu in gpus:
        mig = "; MIG is on: the driver reports no utilization" if gpu.has_mig else ""
        print(f"GPU {gpu.index}: {gpu.name} {gpu.uuid}{mig}")
    with tempfile.TemporaryDirectory() as home:
        jobs = GpuJobs(Path(home))
        try:
            is_right = _checked(
                jobs, "two ranks on one GPU", "shared --nodes 1 --processes 2", is_shared=True
            )
            if len(gpus) > 1:
                line = "apart --nodes 2 --processes 2"
                is_right &= _checked(jobs, "two nodes with a GPU each", line, is_shared=False)
            else:
                print("\ntwo nodes with a GPU each: not checked, this machine has one GPU")
        finally:
            jobs.close()
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
