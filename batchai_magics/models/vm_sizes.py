"""The virtual machine sizes of `vmSize`, as published by Azure for the lifetime of Batch AI.

Of the series with premium storage it supported only those with GPUs, and Fsv2.
"""

from __future__ import annotations

from typing import NamedTuple

from batchai_magics.errors import ServiceError, did_you_mean


class VmSize(NamedTuple):
    """The processors of one node."""

    name: str
    vcpus: int
    gpus: int


def lookup(name: str) -> VmSize:
    """Finds a size case-insensitively.

    Raises:
        ServiceError: Batch AI did not support it; the hint suggests a similar one.
    """
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
        vcpus_per_gpu, *entries = line.split()
        for entry in entries:
            short, vcpus = entry.split(":")
            gpus = int(vcpus) // int(vcpus_per_gpu) if int(vcpus_per_gpu) else 0
            name = f"Standard_{short}"
            sizes[name.lower()] = VmSize(name, int(vcpus), gpus)
    return sizes


# One line a series: vCPUs for each GPU (0: no GPU), then name:vCPUs for each size.
SIZES = _read("""
6 NC6:6 NC12:12 NC24:24 NC24r:24
6 NC6s_v2:6 NC12s_v2:12 NC24s_v2:24 NC24rs_v2:24
6 NC6s_v3:6 NC12s_v3:12 NC24s_v3:24 NC24rs_v3:24
6 ND6s:6 ND12s:12 ND24s:24 ND24rs:24
6 NV6:6 NV12:12 NV24:24
0 D1:1 D2:2 D3:4 D4:8 D11:2 D12:4 D13:8 D14:16
0 D1_v2:1 D2_v2:2 D3_v2:4 D4_v2:8 D5_v2:16
0 D11_v2:2 D12_v2:4 D13_v2:8 D14_v2:16 D15_v2:20
0 D2_v3:2 D4_v3:4 D8_v3:8 D16_v3:16 D32_v3:32 D64_v3:64
0 E2_v3:2 E4_v3:4 E8_v3:8 E16_v3:16 E32_v3:32 E64_v3:64
0 F1:1 F2:2 F4:4 F8:8 F16:16
0 F2s_v2:2 F4s_v2:4 F8s_v2:8 F16s_v2:16 F32s_v2:32 F64s_v2:64 F72s_v2:72
0 H8:8 H16:16 H8m:8 H16m:16 H16r:16 H16mr:16
0 A1:1 A2:2 A3:4 A4:8 A5:2 A6:4 A7:8 A8:8 A9:16 A10:8 A11:16
0 A1_v2:1 A2_v2:2 A4_v2:4 A8_v2:8 A2m_v2:2 A4m_v2:4 A8m_v2:8
0 G1:2 G2:4 G3:8 G4:16 G5:32
""")
