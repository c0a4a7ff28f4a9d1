"""Distributed training jobs from a notebook cell: Azure Batch AI's workflow, live inside Jupyter."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from batchai_magics.backends.node.job_module import log
    from batchai_magics.cell import CellRequest
    from batchai_magics.config import Settings
    from batchai_magics.errors import (
        BatchAIError,
        CapabilityError,
        ConflictError,
        JobFailedError,
        NotFoundError,
        ServiceError,
        SpecError,
        StorageError,
        UsageError,
    )
    from batchai_magics.jobs.handle import Job
    from batchai_magics.jobs.submit import submit
    from batchai_magics.metrics.runs.comparison import compare
    from batchai_magics.metrics.runs.log_metrics import read_metrics
    from batchai_magics.metrics.runs.scaling import scaling
    from batchai_magics.models.cluster import ClusterSpec
    from batchai_magics.models.job import JobSpec

__version__ = "0.1.0"

# Where each public name lives; imported when first asked for, so that loading the extension is quick.
_HOMES = {
    "BatchAIError": "errors",
    "CapabilityError": "errors",
    "CellRequest": "cell",
    "ClusterSpec": "models.cluster",
    "ConflictError": "errors",
    "Job": "jobs.handle",
    "JobFailedError": "errors",
    "JobSpec": "models.job",
    "NotFoundError": "errors",
    "ServiceError": "errors",
    "Settings": "config",
    "SpecError": "errors",
    "StorageError": "errors",
    "UsageError": "errors",
    "compare": "metrics.runs.comparison",
    "log": "backends.node.job_module",
    "read_metrics": "metrics.runs.log_metrics",
    "scaling": "metrics.runs.scaling",
    "submit": "jobs.submit",
}

__all__ = [
    "BatchAIError",
    "CapabilityError",
    "CellRequest",
    "ClusterSpec",
    "ConflictError",
    "Job",
    "JobFailedError",
    "JobSpec",
    "NotFoundError",
    "ServiceError",
    "Settings",
    "SpecError",
    "StorageError",
    "UsageError",
    "__version__",
    "compare",
    "load_ipython_extension",
    "log",
    "read_metrics",
    "scaling",
    "submit",
    "unload_ipython_extension",
]


def load_ipython_extension(ipython: InteractiveShell) -> None:
    """What `%load_ext batchai_magics` calls."""
    from batchai_magics.magics.loading import load

    load(ipython)


def unload_ipython_extension(ipython: InteractiveShell) -> None:
    """What `%unload_ext batchai_magics` calls."""
    from batchai_magics.magics.loading import unload

    unload(ipython)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if _HOMES[name].startswith("jobs.") and "IPython" in sys.modules:
        importlib.import_module(f"{__name__}.magics.loading").show_cards()
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
