from .clusters import (
    NOTES as NOTES,
    Cluster as Cluster,
    Node as Node,
)
from .jobs import (
    JobResource as JobResource,
)
from .resource import (
    Resource as Resource,
)
from .workspaces import (
    Experiment as Experiment,
    ExperimentSpec as ExperimentSpec,
    Workspace as Workspace,
    WorkspacePatch as WorkspacePatch,
    WorkspaceSpec as WorkspaceSpec,
)
