"""The jobs of a workspace: creation, state, lists, cancellation, archiving."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count

from batchai_magics.backends.azureml.connection import Connection
from batchai_magics.backends.azureml.job_names import NAME, run_name
from batchai_magics.backends.azureml.job_parsing import AzureJob, ServiceJob
from batchai_magics.backends.azureml.run_details import RunDetails, RunFacts
from batchai_magics.errors import NotFoundError
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.resources import JobResource

_READ_ONLY = ("status", "parameters")


class Jobs:
    """The jobs of a workspace."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._runs: dict[str, str] = {}  # key of a job → name of its run
        self.facts: Callable[[ServiceJob], RunFacts] = self._details_alone
        self.waiting: Callable[[ServiceJob], str] = lambda job: job.waiting

    def show(self, id: ResourceId) -> JobResource:
        """The current job.

        Raises:
            NotFoundError: It does not exist, or was deleted.
        """
        job = self.resource(self.find(id))
        _ = job.execution, job.ranks, job.waiting  # read now, so that errors are raised here
        return job

    def resource(self, job: ServiceJob) -> JobResource:
        """The resource of a job, which reads the details of its run on demand."""
        return AzureJob.of(job, self.facts, self.waiting)

    def find(self, id: ResourceId) -> ServiceJob:
        """The job in the service: one of ours by the name of its run, else one that has this name there.

        Raises:
            NotFoundError: It does not exist, or was deleted.
        """
        known = self._runs.get(id.key)
        service_job = self._get(id, known) if known else None
        if service_job is None or service_job.is_archived:
            # another process may have deleted it and created the next
            with_id = (job for _, job in self._generations(id) if not job.is_archived)
            service_job = next(with_id, None) or self._foreign(id)
        if service_job is None or service_job.is_archived:
            text = f"there is no job {id.name} in the experiment {id.experiment}"
            raise NotFoundError(text, code="JobNotFound")
        self._runs[id.key] = service_job.run
        return service_job

    def run_of(self, id: ResourceId) -> str:
        """The name of a job's run, which is looked up once.

        Raises:
            NotFoundError: The job does not exist.
        """
        return self._runs.get(id.key) or self.find(id).run

    def details(self, run: str) -> RunDetails:
        """What the run history knows of a run, asked each time.

        Raises:
            NotFoundError: There is no such run.
        """
        return RunDetails.from_wire(self._connection.history_json(f"runs/{run}/details"))

    def all(self, workspace: ResourceId) -> list[ServiceJob]:
        """The jobs of all experiments, oldest first."""
        request = self._connection.request("GET", "jobs", query={"listViewType": "ActiveOnly"})
        newest_first = [ServiceJob(workspace, item) for item in self._connection.items(request)]
        return newest_first[::-1]  # the service lists the newest first

    def list(self, experiment: ResourceId) -> Sequence[JobResource]:
        """The jobs of an experiment, oldest first."""
        key = experiment.key
        return [self.resource(job) for job in self.all(experiment.parent) if job.id.parent.key == key]

    def experiments(self, workspace: ResourceId) -> Sequence[ResourceId]:
        """The experiments that have jobs, in the order of their first ones."""
        return list({job.id.parent.key: job.id.parent for job in self.all(workspace)}.values())

    def terminate(self, id: ResourceId) -> None:
        """Cancels a job; no effect on one that has ended."""
        job = self.find(id)
        if not job.state.is_final:
            self._connection.send(self._connection.request("POST", f"jobs/{job.run}/cancel"))

    def delete(self, id: ResourceId) -> None:
        """Cancels and archives a job: its record stays in the workspace, and its name taken."""
        self.terminate(id)
        job = self.find(id)
        self.update(job, isArchived=True)
        del self._runs[id.key]

    def update(self, job: ServiceJob, **changes: object) -> None:
        """Changes what may change of a job: tags, and whether it is archived; the rest is sent as it was."""
        properties = {name: value for name, value in job.properties.items() if name not in _READ_ONLY}
        body = {"properties": {**properties, **changes}}
        self._connection.send(self._connection.request("PUT", f"jobs/{job.run}", body))

    def existing(self, id: ResourceId) -> tuple[int, ServiceJob | None]:
        """The job that was created with this id, if it was not deleted, and the number of the next one."""
        generations = list(self._generations(id))
        last = generations[-1][1] if generations and not generations[-1][1].is_archived else None
        return len(generations) + 1, last or self._foreign(id)

    def new_run(self, id: ResourceId, generation: int) -> str:
        """The name of the run of a new job, noted as the one of that id."""
        self._runs[id.key] = run_name(id, generation)
        return self._runs[id.key]

    def _generations(self, id: ResourceId) -> Iterator[tuple[int, ServiceJob]]:
        """The jobs that were created with this id, with their numbers; all but the last are deleted."""
        for generation in count(1):
            job = self._get(id, run_name(id, generation))
            if job is None:
                return
            yield generation, job

    def _foreign(self, id: ResourceId) -> ServiceJob | None:
        """A job of somebody else by its name in the service."""
        job = self._get(id, id.name)
        return job if job and NAME not in job.own_properties and job.id.key == id.key else None

    def _get(self, id: ResourceId, run: str) -> ServiceJob | None:
        try:
            data = self._connection.request_json(self._connection.request("GET", f"jobs/{run}"))
        except NotFoundError:
            return None
        return ServiceJob(id.workspace_id, data)

    def _details_alone(self, job: ServiceJob) -> RunFacts:
        try:
            return RunFacts(self.details(job.run))
        except NotFoundError:
            return RunFacts()
