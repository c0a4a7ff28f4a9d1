from .cluster_resource import (
    NOTES as NOTES,
    Cluster as Cluster,
    Node as Node,
)
from .job_resource import (
    JobResource as JobResource,
)
from .workspace_resource import (
    Experiment as Experiment,
    ExperimentSpec as ExperimentSpec,
    Resource as Resource,
    Workspace as Workspace,
    WorkspacePatch as WorkspacePatch,
    WorkspaceSpec as WorkspaceSpec,
)
