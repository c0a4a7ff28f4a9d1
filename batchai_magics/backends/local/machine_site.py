"""What a Plan needs to know of this machine, before its nodes are known."""

from __future__ import annotations

import os
import sys

from batchai_magics.backends.folders.layout import TMPDIR
from batchai_magics.backends.local import machine_devices
from batchai_magics.backends.node.node_programs import RUN_SCRIPT
from batchai_magics.backends.service.runner import Site


def machine_site(disk_grace_s: float) -> Site:
    """The site of runs that are submitted from this process."""
    return Site(
        python=sys.executable,
        script_wrapper=RUN_SCRIPT,
        environ=os.environ,
        core_count=None,
        disk_grace_s=disk_grace_s,
        has_devices=bool(machine_devices.machine().gpus),
        tmpdir=TMPDIR,
    )
