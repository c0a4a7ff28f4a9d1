"""The jobs of a workspace: ours with their specs, others with specs inferred from their properties.

They are found, listed, cancelled and archived.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from functools import cached_property
from itertools import count
from typing import Any

from batchai_magics.backends.azureml.connection import Connection
from batchai_magics.backends.azureml.job_names import NAME, SEGMENTS, job_id, run_name
from batchai_magics.backends.azureml.node.job_variables import RUN, SPEC, unpacked
from batchai_magics.backends.azureml.run_details import RunDetails
from batchai_magics.backends.service.runner import RunStatus
from batchai_magics.backends.service.stored_descriptions import attempts, execution_info, moment, rank_exits
from batchai_magics.errors import NotFoundError
from batchai_magics.models.job_execution import Attempt, ExecutionInfo, RankExit
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.resources import JobResource
from batchai_magics.models.response_object import Provisioning
from batchai_magics.models.states import ExecutionState
from batchai_magics.models.wire_times import parse_time

_READ_ONLY = ("status", "parameters")
SERVERLESS = "serverless"  # the cluster of jobs without one

_STATES: Mapping[str, ExecutionState] = {
    **dict.fromkeys(("Running", "Finalizing", "NotResponding"), ExecutionState.RUNNING),
    "CancelRequested": ExecutionState.TERMINATING,
    "Completed": ExecutionState.SUCCEEDED,
    **dict.fromkeys(("Failed", "Canceled"), ExecutionState.FAILED),
}
WAITING: Mapping[str, str] = {
    "NotStarted": "the service has not started it yet",
    "Starting": "the service is starting it",
    "Provisioning": "the service is getting its nodes",
    "Preparing": "the service prepares its image: the first job with an image waits until it is built",
    "Queued": "it waits for nodes",
    "Paused": "the service has paused it",
}
_NOTHING: Mapping[str, Any] = {}


class AzureJob(JobResource):
    """A job as the service returns it; each field is read on demand.

    Fields of its run cost another request when they are first read; a list of jobs needs few of them.
    """

    properties: Mapping[str, Any]  # its properties as JSON
    _data: Mapping[str, Any]
    _workspace: ResourceId
    _read_status: Callable[[AzureJob], RunStatus]

    @classmethod
    def of(
        cls, workspace: ResourceId, data: Mapping[str, Any], read_status: Callable[[AzureJob], RunStatus]
    ) -> AzureJob:
        """The job of a response, with the function that reads the status of its run."""
        job = object.__new__(cls)
        vars(job).update(_workspace=workspace, _data=data, _read_status=read_status)
        vars(job).update(properties=data.get("properties") or _NOTHING)
        return job

    @property
    def run(self) -> str:
        """The name of its run."""
        return str(self._data.get("name") or "")

    @property
    def creator(self) -> str:
        """The user who created it; empty if unknown."""
        return str((self._data.get("systemData") or _NOTHING).get("createdBy") or "")

    @property
    def is_archived(self) -> bool:
        """Whether it was deleted, which archives it."""
        return bool(self.properties.get("isArchived"))

    @property
    def own_properties(self) -> Mapping[str, str]:
        """The properties that it was created with."""
        return self.properties.get("properties") or _NOTHING

    @property
    def tags(self) -> Mapping[str, str]:
        """Its tags, which may change."""
        return self.properties.get("tags") or _NOTHING

    @property
    def status(self) -> str:
        """Its status in the service's words."""
        return str(self.properties.get("status") or "")

    @property
    def size(self) -> str:
        """The VM size of its nodes, if it is serverless; else empty."""
        return str((self.properties.get("resources") or _NOTHING).get("instanceType") or "")

    @property
    def is_spot(self) -> bool:
        """Whether it is serverless, and its nodes may be preempted."""
        tier = (self.properties.get("queueSettings") or _NOTHING).get("jobTier")
        return bool(self.size) and str(tier).lower() == "spot"

    @cached_property
    def bundle(self) -> Mapping[str, Any]:
        """The bundle that its nodes read: plan, mounts and records; empty for others' jobs."""
        text = (self.properties.get("environmentVariables") or _NOTHING).get(RUN)
        return unpacked(text) if text else _NOTHING

    @cached_property
    def id(self) -> ResourceId:
        """Its id."""
        return job_id(self._workspace, self._data)

    @cached_property
    def spec(self) -> JobSpec:
        """The spec that it was created with; for others' jobs, one inferred from their properties."""
        text = (self.properties.get("environmentVariables") or _NOTHING).get(SPEC)
        return JobSpec.from_wire(unpacked(text) if text else self._known_spec())

    @cached_property
    def provisioning(self) -> Provisioning:
        """When it was created."""
        created = (self._data.get("systemData") or _NOTHING).get("createdAt")
        time = parse_time(created) if created else datetime.fromtimestamp(0, timezone.utc)
        return Provisioning(time, time)

    @cached_property
    def state(self) -> ExecutionState:
        """Its execution state."""
        return _STATES.get(self.status, ExecutionState.QUEUED)

    @cached_property
    def output_path_segment(self) -> str:
        """The path of its run below each output prefix."""
        return f"{SEGMENTS}/{self.run}"

    @cached_property
    def run_status(self) -> RunStatus:
        """The status of its run, read once; without the reason why a queued job waits."""
        if self.state is ExecutionState.QUEUED:
            return RunStatus(self.state, self.provisioning.created.timestamp())
        return self._read_status(self)

    @cached_property
    def state_changed(self) -> datetime:
        """When its state changed, as far as the service reports it."""
        return moment(self.run_status.changed)

    @cached_property
    def execution(self) -> ExecutionInfo | None:
        """Its times, exit code and errors; None before it starts."""
        return execution_info(self.run_status)

    @cached_property
    def waiting(self) -> str:
        """Why it is queued."""
        return self._read_status(self).waiting if self.state is ExecutionState.QUEUED else ""

    @cached_property
    def ranks(self) -> tuple[RankExit, ...]:
        """The exits of its processes."""
        return rank_exits(self.run_status)

    @cached_property
    def attempts(self) -> tuple[Attempt, ...]:
        """Its attempts."""
        return attempts(self.run_status)

    def _known_spec(self) -> Mapping[str, Any]:
        """The inferred spec of a job that was not submitted by this package, as wire JSON."""
        job = self.properties
        compute = str(job.get("computeId") or "").rpartition("/")[2] or SERVERLESS
        command = str(job.get("command") or f"({job.get('jobType')} job)")
        distribution = job.get("distribution") or _NOTHING
        per_node = distribution.get("processCountPerInstance")
        nodes = int((job.get("resources") or _NOTHING).get("instanceCount") or 1)
        toolkit: dict[str, Any] = {"customToolkitSettings": {"commandLine": command}}
        if distribution.get("distributionType") == "Mpi":
            toolkit = {
                "customMpiSettings": {"commandLine": command, "processCount": nodes * int(per_node or 1)}
            }
        image = job.get("environmentId")
        container = {"containerSettings": {"imageSourceRegistry": {"image": image}}} if image else {}
        return {
            "properties": {
                "cluster": {"id": str(self._workspace.child(Kind.CLUSTER, compute))},
                "nodeCount": nodes,
                **toolkit,
                **container,
                **({"batchaiSize": self.size} if self.size else {}),
                **({"batchaiSpot": "yes"} if self.is_spot else {}),
                "stdOutErrPathPrefix": "$AZ_BATCHAI_MOUNT_ROOT/autoafs",
            }
        }


class Jobs:
    """The jobs of a workspace; `read_status` reads the status of a job's run on demand."""

    def __init__(self, connection: Connection, read_status: Callable[[AzureJob], RunStatus]) -> None:
        self._connection, self._read_status = connection, read_status
        self._runs: dict[str, str] = {}  # key of a job → name of its run

    def show(self, id: ResourceId) -> JobResource:
        """The current job; raises NotFoundError if it does not exist, or was deleted."""
        job = self.find(id)
        _ = job.run_status, job.waiting  # read now, so that errors are raised here
        return job

    def find(self, id: ResourceId) -> AzureJob:
        """The job in the service: one of ours by the name of its run, else another one of this name.

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
        """The name of a job's run, cached; raises NotFoundError if the job does not exist."""
        return self._runs.get(id.key) or self.find(id).run

    def details(self, run: str) -> RunDetails:
        """The details of a run in the run history, not cached; raises NotFoundError for an unknown run."""
        return RunDetails.from_wire(self._connection.history_json(f"runs/{run}/details"))

    def all(self, workspace: ResourceId) -> list[AzureJob]:
        """The jobs of all experiments, oldest first."""
        request = self._connection.request("GET", "jobs", query={"listViewType": "ActiveOnly"})
        items = list(self._connection.items(request))
        return [
            self.parsed(workspace, item) for item in reversed(items)
        ]  # the service lists the newest first

    def list(self, experiment: ResourceId) -> Sequence[JobResource]:
        """The jobs of an experiment, oldest first."""
        key = experiment.key
        return [job for job in self.all(experiment.parent) if job.id.parent.key == key]

    def experiments(self, workspace: ResourceId) -> Mapping[ResourceId, datetime]:
        """The experiments that have jobs, each with the creation of its first one, in that order."""
        firsts: dict[str, AzureJob] = {}
        for job in self.all(workspace):
            firsts.setdefault(job.id.parent.key, job)
        return {job.id.parent: job.provisioning.created for job in firsts.values()}

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

    def update(self, job: AzureJob, **changes: object) -> None:
        """Changes the tags of a job or whether it is archived; other properties are sent unchanged."""
        properties = {name: value for name, value in job.properties.items() if name not in _READ_ONLY}
        body = {"properties": {**properties, **changes}}
        self._connection.send(self._connection.request("PUT", f"jobs/{job.run}", body))

    def existing(self, id: ResourceId) -> tuple[int, AzureJob | None]:
        """The number of the next job with this id, and the existing one, unless it was deleted."""
        generations = list(self._generations(id))
        last = generations[-1][1] if generations and not generations[-1][1].is_archived else None
        return len(generations) + 1, last or self._foreign(id)

    def new_run(self, id: ResourceId, generation: int) -> str:
        """The name of the run of a new job, cached for its id."""
        self._runs[id.key] = run_name(id, generation)
        return self._runs[id.key]

    def _generations(self, id: ResourceId) -> Iterator[tuple[int, AzureJob]]:
        """The jobs that were created with this id, with their numbers; all but the last are deleted."""
        for generation in count(1):
            job = self._get(id, run_name(id, generation))
            if job is None:
                return
            yield generation, job

    def _foreign(self, id: ResourceId) -> AzureJob | None:
        """A job of another program, by its name in the service."""
        job = self._get(id, id.name)
        return job if job and NAME not in job.own_properties and job.id.key == id.key else None

    def parsed(self, workspace: ResourceId, data: Mapping[str, Any]) -> AzureJob:
        """The job of a response."""
        return AzureJob.of(workspace, data, self._read_status)

    def _get(self, id: ResourceId, run: str) -> AzureJob | None:
        try:
            data = self._connection.request_json(self._connection.request("GET", f"jobs/{run}"))
        except NotFoundError:
            return None
        return self.parsed(id.workspace_id, data)
