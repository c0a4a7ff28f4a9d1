"""Resources as a backend shows them: the description plus what became of it, to the service's JSON and back.

Keys that begin with `batchai` are ours: the service had no word for them, and its clients leave out keys that
they do not know.
"""

from __future__ import annotations

from batchai_magics.models.file_server import FileServer
from batchai_magics.models.resources.clusters import NOTES, Cluster, Node
from batchai_magics.models.resources.jobs import JobResource
from batchai_magics.models.resources.workspaces import (
    Experiment,
    ExperimentSpec,
    Workspace,
    WorkspacePatch,
    WorkspaceSpec,
)

__all__ = [
    "NOTES",
    "Cluster",
    "Experiment",
    "ExperimentSpec",
    "JobResource",
    "Node",
    "Resource",
    "Workspace",
    "WorkspacePatch",
    "WorkspaceSpec",
]

Resource = Workspace | Experiment | Cluster | JobResource | FileServer
