"""Resources as a backend shows them: the description plus what became of it, to the service's JSON and back.

Keys that begin with `batchai` are ours: the service had no word for them, and its clients leave out keys that
they do not know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from batchai_magics.late_names import late_names

if TYPE_CHECKING:
    from batchai_magics.models.resources.clusters import NOTES, Cluster, Node
    from batchai_magics.models.resources.jobs import JobResource
    from batchai_magics.models.resources.resource import Resource
    from batchai_magics.models.resources.workspaces import (
        Experiment,
        ExperimentSpec,
        Workspace,
        WorkspacePatch,
        WorkspaceSpec,
    )

# Where each name lives: who lists jobs needs no model of anything.
_HOMES = {
    "NOTES": "models.resources.clusters",
    "Cluster": "models.resources.clusters",
    "Experiment": "models.resources.workspaces",
    "ExperimentSpec": "models.resources.workspaces",
    "JobResource": "models.resources.jobs",
    "Node": "models.resources.clusters",
    "Resource": "models.resources.resource",
    "Workspace": "models.resources.workspaces",
    "WorkspacePatch": "models.resources.workspaces",
    "WorkspaceSpec": "models.resources.workspaces",
}

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

if not TYPE_CHECKING:  # a checker would take any name for one of these
    __getattr__, __dir__ = late_names(__name__, _HOMES)
