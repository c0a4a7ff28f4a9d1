"""Sweeps: a hundred short trials against their own time, and thousands of queued ones."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from batchai_magics.backends.base import Backend
from batchai_magics.backends.base.backend_registry import current_settings, open_backend
from batchai_magics.cell import Notebook
from batchai_magics.cell.sweep_request import parse_sweep
from batchai_magics.config import Settings
from batchai_magics.jobs.sweeps.sweep_handle import Sweep
from batchai_magics.jobs.sweeps.sweep_submission import submit_sweep
from benchmarks.row import Row

NODES = 4
TRIAL_S = 1.0
SHORT = f"import time\nprint('step 1 loss 1', flush=True)\ntime.sleep({TRIAL_S})"
SUBMIT_MS, RESULTS_MS = 6.0, 0.1  # what each queued one may take


def rows(trial_count: int = 100, queued_count: int = 4000) -> Iterator[Row]:
    """The time of short trials on four nodes, and what many queued ones cost."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as home:
        os.environ |= {"BATCHAI_HOME": str(Path(home) / "home"), "BATCHAI_CLUSTER_NODES": str(NODES)}
        settings = current_settings()
        backend = open_backend(settings)
        began = time.monotonic()
        submitted(backend, settings, "short", trial_count).wait()
        taken_s = time.monotonic() - began
        own_s = trial_count * TRIAL_S / NODES
        yield Row(
            f"{trial_count} trials of {TRIAL_S:g} s on {NODES} nodes", taken_s, "their own time", own_s, "s"
        )
        began = time.monotonic()
        sweep = submitted(backend, settings, "many", queued_count, "--parallel 1")
        taken_s = time.monotonic() - began
        limit_s = SUBMIT_MS * queued_count / 1000
        yield Row(f"submit {queued_count} trials", taken_s, "the limit", limit_s, "s")
        taken_s = min(results_s(sweep) for _ in range(3))
        limit_s = RESULTS_MS * queued_count / 1000
        yield Row(f"results() of {queued_count} trials", taken_s, "the limit", limit_s, "s")
        backend.delete(sweep.experiment)  # ends all of it in one step
        backend.close()


def submitted(backend: Backend, settings: Settings, name: str, count: int, options: str = "") -> Sweep:
    """A sweep of that many trials."""
    rows = [{"number": number} for number in range(count)]
    notebook = Notebook(names={"rows": rows})
    line = f"{name} --sweep rows --toolkit custom {options}"
    request = parse_sweep(line, SHORT, settings=settings, notebook=notebook)
    return submit_sweep(backend, request, settings).sweep


def results_s(sweep: Sweep) -> float:
    """Seconds that the results take."""
    began = time.monotonic()
    table = sweep.results()
    return time.monotonic() - began if len(table) else math.nan
