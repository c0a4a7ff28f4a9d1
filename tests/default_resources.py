"""The workspace, the experiment and the default cluster of some settings, without a job."""

from batchai_magics.backends.base import Backend, JobNeeds
from batchai_magics.config import Settings
from batchai_magics.jobs.submit import default_resources
from batchai_magics.models.resource_ids import Kind, workspace_id


def ensure_defaults(
    backend: Backend, settings: Settings, *, workspace: str = "", experiment: str = ""
) -> None:
    """Creates them unless they exist; another workspace gets no cluster."""
    id = workspace_id(settings, workspace)
    inside = id.child(Kind.EXPERIMENT, experiment or settings.experiment)
    cluster = id.child(Kind.CLUSTER, settings.cluster) if id.workspace == settings.workspace else None
    wanted = default_resources(backend, settings, inside, cluster=cluster)
    backend.ensure(JobNeeds(inside.child(Kind.JOB, "none"), wanted))
