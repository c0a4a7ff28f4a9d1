"""`batchai cluster file …`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass

from batchai_magics.backends.base import SETUP_LOGS, OutputFile
from batchai_magics.commands.context import Context
from batchai_magics.commands.handlers.relative import relative
from batchai_magics.commands.output.refusal import refusal
from batchai_magics.models.cluster import ClusterSpec
from batchai_magics.models.resources import Cluster

_UNSTORED = (
    "List files is supported only for clusters with startup task configure to store its output on "
    "Azure File Share or Azure Blob Container"
)


@dataclass(frozen=True)
class SetupFile(OutputFile):
    """A file or folder that a setup task wrote; it has columns of its own."""


def list_all(context: Context, arguments: Namespace) -> Sequence[SetupFile]:
    """One level of what the cluster's setup task wrote."""
    id = context.cluster(arguments)
    path = relative(arguments.path, "--path")
    cluster = context.backend.show(id)
    assert isinstance(cluster, Cluster)
    check(cluster.spec)
    files = SETUP_LOGS.of(context.backend).files(id, path, expiry_min=arguments.expiry)
    return [SetupFile(**vars(file)) for file in files]


def check(spec: ClusterSpec) -> None:
    """Refuses a cluster whose setup task left nothing that could be listed."""
    task = spec.node_setup.setup_task if spec.node_setup else None
    if task is None:
        raise refusal(_UNSTORED, hint="Create the cluster with --setup-task and --setup-task-output.")
    if not task.std_out_err_path_suffix:
        raise refusal("List files is not supported for this cluster")
