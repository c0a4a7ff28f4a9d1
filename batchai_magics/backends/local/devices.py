"""GPUs: how many a node of a VM size has, and which of this machine's belong to it."""

from __future__ import annotations

from pathlib import Path

from batchai_magics.models.vm_sizes import lookup


def gpu_count(size: str) -> int:
    """The number of GPUs that a node of that size has; it decides how many processes a job gets."""
    return lookup(size).gpus


def share_of(ordinal: int, node_count: int) -> tuple[int, ...]:
    """The numbers of this machine's GPUs that a node may use; with too few, nodes share them."""
    present = sorted(
        int(path.name[6:]) for path in Path("/dev").glob("nvidia[0-9]*") if path.name[6:].isdigit()
    )
    own = tuple(present[ordinal % node_count :: node_count])
    return own or tuple(present[ordinal % len(present) :][:1] if present else ())
