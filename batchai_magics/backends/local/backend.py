"""The local backend: the service over a home on this machine, with our scheduler as its engine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from batchai_magics.backends.base.protocol import on_first_use
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.local.runner import LocalRunner
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.backends.local.state import run_status
from batchai_magics.backends.local.state.sqlite_repository import SqliteRepository
from batchai_magics.backends.local.state.store import Store
from batchai_magics.backends.service.context import cluster_of
from batchai_magics.backends.service.service import Service
from batchai_magics.launch.job_bounds import JobBounds

if TYPE_CHECKING:
    from batchai_magics.backends.local.home_cleaning import HomeCleaning
    from batchai_magics.models.resource_ids import ResourceId
    from batchai_magics.models.resources import JobResource, Node

SETTING = "BATCHAI_HOME"


class LocalBackend(Service):
    """Jobs on this machine. State, shares and logs are below its home; several processes may share one."""

    preemption: LocalPreemption = on_first_use(lambda own: LocalPreemption(own))
    cleaning: HomeCleaning = on_first_use(lambda own: _cleaning(own))

    def __init__(
        self, settings: LocalSettings, bounds: JobBounds | None = None, *, pass_env: str = ""
    ) -> None:
        self.settings = settings
        self.layout = Layout(Path(settings.home).expanduser().absolute())
        self.store = Store(self.layout.database)
        self.runner = LocalRunner(self.store, self.layout, settings, pass_env=pass_env)
        quota = settings.core_quota
        super().__init__(
            SqliteRepository(self.store), self.runner, setting=SETTING, core_quota=quota, bounds=bounds
        )

    def nodes(self, id: ResourceId) -> Sequence[Node]:
        """The nodes of a cluster, or those a job runs on."""
        with self.store.read() as db:
            self.context.repository.get(id)
            return run_status.nodes_of(db, id)

    def jobs_ahead_of(self, job: JobResource) -> Sequence[ResourceId]:
        """The jobs of whatever experiment that get nodes of its cluster before this queued one, in order."""
        with self.store.read() as db:
            return run_status.jobs_ahead_of(db, job.id)


class LocalPreemption:
    """Preempts nodes of lowpriority clusters on request."""

    def __init__(self, backend: LocalBackend) -> None:
        self._context, self._runner = backend.context, backend.runner

    def preempt(self, cluster: ResourceId, node_id: str) -> None:
        """Removes a node of a lowpriority cluster; its job is requeued, and a new node replaces it."""
        from batchai_magics.backends.base import api_errors
        from batchai_magics.backends.service import resource_views
        from batchai_magics.models.cluster_spec import VmPriority

        record = self._context.repository.get(cluster)
        if resource_views.cluster_spec(record.spec).vm_priority is not VmPriority.LOW_PRIORITY:
            raise api_errors.not_low_priority(cluster)
        if not self._runner.preempt(cluster_of(record), node_id):
            raise api_errors.node_not_found(node_id)
        self._runner.reconcile()


def _cleaning(backend: LocalBackend) -> HomeCleaning:
    from batchai_magics.backends.local.home_cleaning import HomeCleaning

    return HomeCleaning(backend.context, backend.runner)
