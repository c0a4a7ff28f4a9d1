"""The virtual machine sizes of `vmSize`, as published by Azure for the lifetime of Batch AI.

Of the series with premium storage it supported only those with GPUs, and Fsv2.
"""

from __future__ import annotations

from dataclasses import dataclass

from batchai_magics.errors import ServiceError, did_you_mean


@dataclass(frozen=True)
class VmSize:
    """The hardware of one node; `has_rdma` means InfiniBand for MPI."""

    name: str
    vcpus: int
    gpus: int
    memory_gib: float
    has_rdma: bool = False


def lookup(name: str) -> VmSize:
    """Finds a size case-insensitively; raises ServiceError for an unsupported one."""
    size = SIZES.get(name.strip().lower())
    if size is None:
        known = [entry.name for entry in SIZES.values()]
        message = (
            f"The specified value {name} for property Cluster.Properties.VMSize is not a supported VM size. "
            "See additional details for supported VM sizes."
        )
        raise ServiceError(
            message, hint=did_you_mean(name, known) or "for example Standard_NC6 or Standard_D2"
        )
    return size


def _read(table: str) -> dict[str, VmSize]:
    """The table below, by lower-case name."""
    sizes: dict[str, VmSize] = {}
    for line in table.strip().splitlines():
        gpus_rdma, *entries = line.split()
        gpu_step, rdma = gpus_rdma.rstrip("r"), gpus_rdma.endswith("r")
        for entry in entries:
            short, vcpus, memory = entry.split(":")
            gpus = int(vcpus) // int(gpu_step) if int(gpu_step) else 0
            name = f"Standard_{short}"
            sizes[name.lower()] = VmSize(name, int(vcpus), gpus, float(memory), rdma)
    return sizes


# One line a series: vCPUs for each GPU (0: no GPU; `r`: with RDMA), then name:vCPUs:GiB for each size.
SIZES = _read("""
6  NC6:6:56 NC12:12:112 NC24:24:224
6r NC24r:24:224
6  NC6s_v2:6:112 NC12s_v2:12:224 NC24s_v2:24:448
6r NC24rs_v2:24:448
6  NC6s_v3:6:112 NC12s_v3:12:224 NC24s_v3:24:448
6r NC24rs_v3:24:448
6  ND6s:6:112 ND12s:12:224 ND24s:24:448
6r ND24rs:24:448
6  NV6:6:56 NV12:12:112 NV24:24:224
0  D1:1:3.5 D2:2:7 D3:4:14 D4:8:28 D11:2:14 D12:4:28 D13:8:56 D14:16:112
0  D1_v2:1:3.5 D2_v2:2:7 D3_v2:4:14 D4_v2:8:28 D5_v2:16:56
0  D11_v2:2:14 D12_v2:4:28 D13_v2:8:56 D14_v2:16:112 D15_v2:20:140
0  D2_v3:2:8 D4_v3:4:16 D8_v3:8:32 D16_v3:16:64 D32_v3:32:128 D64_v3:64:256
0  E2_v3:2:16 E4_v3:4:32 E8_v3:8:64 E16_v3:16:128 E32_v3:32:256 E64_v3:64:432
0  F1:1:2 F2:2:4 F4:4:8 F8:8:16 F16:16:32
0  F2s_v2:2:4 F4s_v2:4:8 F8s_v2:8:16 F16s_v2:16:32 F32s_v2:32:64 F64s_v2:64:128 F72s_v2:72:144
0  H8:8:56 H16:16:112 H8m:8:112 H16m:16:224
0r H16r:16:112 H16mr:16:224
0  A1:1:1.75 A2:2:3.5 A3:4:7 A4:8:14 A5:2:14 A6:4:28 A7:8:56 A10:8:56 A11:16:112
0r A8:8:56 A9:16:112
0  A1_v2:1:2 A2_v2:2:4 A4_v2:4:8 A8_v2:8:16 A2m_v2:2:16 A4m_v2:4:32 A8m_v2:8:64
0  G1:2:28 G2:4:56 G3:8:112 G4:16:224 G5:32:448
""")
