"""One step of everything that a daemon would do: whoever changes something runs it."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping

from batchai_magics.backends.local.folders import node_folders, unmanaged
from batchai_magics.backends.local.folders.layout import Layout
from batchai_magics.backends.local.state.store import Store
from batchai_magics.backends.local.watch import autoscale, preparation, scheduler


def settle(
    store: Store, layout: Layout, *, setup_secrets: Mapping[str, str] | None = None
) -> list[subprocess.Popen[bytes]]:
    """Scales, prepares nodes, starts jobs, unmounts; gives the processes that it started (for reaping)."""
    autoscale.adjust(store)
    started = preparation.prepare(store, layout, secrets=setup_secrets)
    started += scheduler.step(store, layout)
    node_folders.sweep(store, layout)
    unmanaged.sweep(store, layout)
    return started
