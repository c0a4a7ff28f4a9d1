"""Jobs as the service returns them: ours with the spec in them, others' with what can be known. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from functools import cached_property
from typing import Any

from batchai_magics.backends.azureml.job_names import SEGMENTS, job_id
from batchai_magics.backends.azureml.node.job_variables import RUN, SPEC, unpacked
from batchai_magics.backends.azureml.run_details import RunFacts
from batchai_magics.models.error_details import ErrorDetail
from batchai_magics.models.job_execution import Attempt, ExecutionInfo, RankExit
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.resources import JobResource
from batchai_magics.models.response_object import Provisioning
from batchai_magics.models.states import TERMINATED, ExecutionState
from batchai_magics.models.wire_times import parse_time

SERVERLESS = "serverless"  # the cluster of jobs without one

_STATES: Mapping[str, ExecutionState] = {
    **dict.fromkeys(("Running", "Finalizing", "NotResponding"), ExecutionState.RUNNING),
    "CancelRequested": ExecutionState.TERMINATING,
    "Completed": ExecutionState.SUCCEEDED,
    **dict.fromkeys(("Failed", "Canceled"), ExecutionState.FAILED),
}
_WAITING: Mapping[str, str] = {
    "NotStarted": "the service has not started it yet",
    "Starting": "the service is starting it",
    "Provisioning": "the service is getting its nodes",
    "Preparing": "the service prepares its image: the first job with an image waits until it is built",
    "Queued": "it waits for nodes",
    "Paused": "the service has paused it",
}
_CANCELLED = "Canceled"
_NOTHING: Mapping[str, Any] = {}


class ServiceJob:
    """The JSON of a job, as the fields of a `JobResource`, each read once and on demand."""

    def __init__(self, workspace: ResourceId, data: Mapping[str, Any]) -> None:
        self._workspace, self._data = workspace, data
        self.properties: Mapping[str, Any] = data.get("properties") or _NOTHING

    @property
    def run(self) -> str:
        """The name of its run."""
        return str(self._data.get("name") or "")

    @cached_property
    def id(self) -> ResourceId:
        """Its id."""
        return job_id(self._workspace, self._data)

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
    def state(self) -> ExecutionState:
        """Its execution state."""
        return _STATES.get(self.status, ExecutionState.QUEUED)

    @property
    def waiting(self) -> str:
        """Why it is queued."""
        return _WAITING.get(self.status, "") if self.state is ExecutionState.QUEUED else ""

    @property
    def size(self) -> str:
        """The VM size of its nodes, if it is serverless; else empty."""
        return str((self.properties.get("resources") or _NOTHING).get("instanceType") or "")

    @property
    def is_spot(self) -> bool | None:
        """Whether its nodes may be preempted, if it is serverless; else None."""
        tier = (self.properties.get("queueSettings") or _NOTHING).get("jobTier")
        return str(tier).lower() == "spot" if self.size else None

    @cached_property
    def provisioning(self) -> Provisioning:
        """When it was created."""
        created = (self._data.get("systemData") or _NOTHING).get("createdAt")
        time = parse_time(created) if created else datetime.fromtimestamp(0, timezone.utc)
        return Provisioning(time, time)

    @cached_property
    def spec(self) -> JobSpec:
        """The spec that it was created with; for others' jobs, what can be known of it."""
        text = (self.properties.get("environmentVariables") or _NOTHING).get(SPEC)
        return JobSpec.from_wire(unpacked(text) if text else self._known_spec())

    @cached_property
    def bundle(self) -> Mapping[str, Any]:
        """What its nodes start, with its mounts and records; empty for others' jobs."""
        text = (self.properties.get("environmentVariables") or _NOTHING).get(RUN)
        return unpacked(text) if text else _NOTHING

    @property
    def output_path_segment(self) -> str:
        """The path of its run below each output prefix."""
        return f"{SEGMENTS}/{self.run}"

    def _known_spec(self) -> Mapping[str, Any]:
        """The spec of a job that was not submitted by us, as wire JSON."""
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


class AzureJob(JobResource):
    """A job of the service. What only the details of its run tell is requested when it is read.

    Each run is a request of its own: a list of jobs needs few of them.
    """

    _job: ServiceJob
    _read_facts: Callable[[ServiceJob], RunFacts]
    _waiting: Callable[[ServiceJob], str]

    @classmethod
    def of(
        cls,
        job: ServiceJob,
        facts: Callable[[ServiceJob], RunFacts],
        waiting: Callable[[ServiceJob], str],
    ) -> AzureJob:
        """The job, with the functions that read the facts of its run and why it waits."""
        made = object.__new__(cls)
        vars(made).update(_job=job, _read_facts=facts, _waiting=waiting, id=job.id, state=job.state)
        vars(made).update(provisioning=job.provisioning, output_path_segment=job.output_path_segment)
        return made

    @cached_property
    def spec(self) -> JobSpec:
        """What it was created with."""
        return self._job.spec

    @cached_property
    def state_changed(self) -> datetime:
        """When its state changed, as far as the service says."""
        if self.state is ExecutionState.QUEUED:
            return self.provisioning.created
        details = self._facts.details
        return (details.ended if self.state.is_final else None) or self._started

    @cached_property
    def execution(self) -> ExecutionInfo | None:
        """Its times, exit code and errors; None before it starts."""
        if self.state is ExecutionState.QUEUED:
            return None
        ended = self.state_changed if self.state.is_final else None
        was_stopped = self._job.status == _CANCELLED
        exit_code = self._facts.exit_code if ended and not was_stopped else None
        if self.state is ExecutionState.SUCCEEDED:
            exit_code = 0
        return ExecutionInfo(self._started, ended, exit_code, self._errors)

    @cached_property
    def waiting(self) -> str:
        """Why it is queued."""
        return self._waiting(self._job) if self.state is ExecutionState.QUEUED else ""

    @cached_property
    def ranks(self) -> tuple[RankExit, ...]:
        """The exits of its processes."""
        return () if self.state is ExecutionState.QUEUED else self._facts.ranks

    @cached_property
    def attempts(self) -> tuple[Attempt, ...]:
        """Its attempts."""
        return () if self.state is ExecutionState.QUEUED else self._facts.attempts

    @property
    def _started(self) -> datetime:
        return self._facts.details.started or self.provisioning.created

    @property
    def _errors(self) -> tuple[ErrorDetail, ...]:
        if self._job.status == _CANCELLED:
            return (
                ErrorDetail(code=TERMINATED, message="The specified job has been terminated by the user"),
                *self._facts.warnings,
            )
        if self.state is not ExecutionState.FAILED or self._facts.errors:
            return (*self._facts.errors, *self._facts.warnings)
        message = "The service reports that the job failed."
        return (ErrorDetail(code="JobFailed", message=message), *self._facts.warnings)

    @cached_property
    def _facts(self) -> RunFacts:
        return self._read_facts(self._job)
