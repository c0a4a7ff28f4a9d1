"""What all of them together are called; a text, so that none of them is loaded for its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from batchai_magics.models.file_server import FileServer
    from batchai_magics.models.resources.clusters import Cluster
    from batchai_magics.models.resources.jobs import JobResource
    from batchai_magics.models.resources.workspaces import Experiment, Workspace

Resource: TypeAlias = "Workspace | Experiment | Cluster | JobResource | FileServer"
