"""Descriptions as they are stored: what the service adds, fingerprints, and a job's with its run."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING

from batchai_magics.backends.service.host_runs import IMAGE_NOT_USED
from batchai_magics.backends.service.repository import HOST_NOTE
from batchai_magics.models.job_execution import Attempt, ExecutionInfo, RankExit
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.resources.job_resource import JobResource, KeptJob
from batchai_magics.models.response_object import Provisioning

if TYPE_CHECKING:
    from batchai_magics.backends.base import Spec
    from batchai_magics.backends.service import runner
    from batchai_magics.backends.service.repository import Record
    from batchai_magics.backends.service.runner import RunStatus
    from batchai_magics.launch.plan import ProcessExit
    from batchai_magics.models.cluster_spec import ClusterSpec, ImageReference
    from batchai_magics.models.error_details import ErrorDetail
    from batchai_magics.models.job_spec import JobSpec
    from batchai_magics.models.resource_ids import ResourceId
    from batchai_magics.models.states import ExecutionState


def stored_text(spec: Spec) -> str:
    """The description as it is stored: wire JSON without secrets."""
    return json.dumps(spec.to_wire())


def fingerprint(spec: Spec) -> str:
    """A digest of the requested description, without anything that the service adds.

    Secrets are not included: they could be guessed from a digest.
    """
    import hashlib

    from batchai_magics.models.cluster_spec import ClusterSpec
    from batchai_magics.models.resources import ExperimentSpec, WorkspaceSpec

    if isinstance(spec, WorkspaceSpec | ExperimentSpec):
        return ""
    requested = _with_suffix(spec, None) if isinstance(spec, ClusterSpec) else spec
    data = json.dumps(requested.to_wire(), sort_keys=True).encode()
    return hashlib.sha256(data).hexdigest()


def output_segment(job: ResourceId, guid: str) -> str:
    """The path of a run below the output prefix, as the service defines it."""
    return f"{_scope(job)}/experiments/{job.experiment}/jobs/{job.name}/{guid}"


def with_image(spec: ClusterSpec) -> ClusterSpec:
    """The description with the node image that the service chose, if none or no version is given."""
    from batchai_magics.models.cluster_spec import VirtualMachineConfiguration

    requested = spec.virtual_machine_configuration
    image = requested.image_reference if requested and requested.image_reference else _default_image()
    is_complete = image.version or image.virtual_machine_image_id
    complete = image if is_complete else image.model_copy(update={"version": _default_image().version})
    machine = VirtualMachineConfiguration(image_reference=complete)
    return spec.model_copy(update={"virtual_machine_configuration": machine})


@cache
def _default_image() -> ImageReference:
    from batchai_magics.models.cluster_spec import ImageReference

    return ImageReference(publisher="Canonical", offer="UbuntuServer", sku="16.04-LTS", version="latest")


def with_setup_suffix(spec: ClusterSpec, cluster: ResourceId, guid: str) -> ClusterSpec:
    """The description with the path that the service adds for the setup task's logs, if it has one."""
    return _with_suffix(spec, f"{_scope(cluster)}/clusters/{cluster.name}/{guid}")


def _with_suffix(spec: ClusterSpec, suffix: str | None) -> ClusterSpec:
    setup = spec.node_setup
    if not (setup and setup.setup_task):
        return spec
    task = setup.setup_task.model_copy(update={"std_out_err_path_suffix": suffix})
    return spec.model_copy(update={"node_setup": setup.model_copy(update={"setup_task": task})})


def _scope(id: ResourceId) -> str:
    return f"{id.subscription}/{id.group}/workspaces/{id.workspace}"


class RecordedJob:
    """The fields of a JobResource."""

    def __init__(self, record: Record, status: RunStatus) -> None:
        self._record, self._status = record, status
        self.state: ExecutionState = status.state
        self.waiting = status.waiting
        self.cost = None

    @cached_property
    def id(self) -> ResourceId:
        """The ARM id."""
        return self._record.resource_id

    @property
    def spec(self) -> JobSpec:
        """The description."""
        return job_spec(self._record.spec)

    @property
    def kept(self) -> KeptJob | None:
        """What lists print without parsing it; None for a job with more than that."""
        record, status = self._record, self._status
        if status.waiting or status.attempts:
            return None
        above, _, name = record.id.rpartition("/")
        group, segment = _group_and_segment(above)
        result = status.result
        return KeptJob(
            id=record.id,
            name=name,
            group=group,
            description=record.spec,
            output_path_segment=f"{segment}{name}/{record.guid}",
            created=record.created,
            state=status.state.value,
            changed=self._changed,
            started=_started(status),
            ended=result.ended if result else None,
            exit_code=result.exit_code if result else None,
            errors=self._errors_text,
        )

    @property
    def provisioning(self) -> Provisioning:
        """When the job was created."""
        created = moment(self._record.created)
        return Provisioning(created, created)

    @property
    def state_changed(self) -> datetime:
        """When it entered its state."""
        return moment(self._changed)

    @property
    def output_path_segment(self) -> str:
        """The path of the run below each output prefix."""
        return output_segment(self.id, self._record.guid)

    @property
    def execution(self) -> ExecutionInfo | None:
        """Times, exit code and errors; None before the job starts."""
        started, result = _started(self._status), self._status.result
        if started is None:
            return None
        if result is None:
            return ExecutionInfo(started=moment(started), errors=_errors(self._errors_text))
        return ExecutionInfo(
            started=moment(started),
            ended=moment(result.ended),
            exit_code=result.exit_code,
            errors=_errors(self._errors_text),
        )

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """All attempts, if the job was ever requeued."""
        return tuple(_attempt(each, number) for number, each in enumerate(self._status.attempts, start=1))

    @property
    def ranks(self) -> tuple[RankExit, ...]:
        """The exits of the ranks, the first failure first."""
        result = self._status.result
        return tuple(map(_rank, result.ranks)) if result else ()

    @property
    def _errors_text(self) -> str:
        result = self._status.result
        errors = [*result.errors, *result.warnings] if result else [*self._status.warnings]
        if note := self._record.more.get(HOST_NOTE):
            errors.append({"code": IMAGE_NOT_USED, "message": note})
        return json.dumps([dict(error) for error in errors]) if errors else "[]"

    @property
    def _changed(self) -> float:
        return self._status.changed or self._record.created


def job_resource(record: Record, status: RunStatus) -> JobResource:
    """The job of a record and the status of its run."""
    return JobResource.reading_later(RecordedJob(record, status))


@lru_cache(maxsize=4096)
def job_spec(text: str) -> JobSpec:
    """The job description in a record; cached by its text, since descriptions never change."""
    from batchai_magics.models.job_spec import JobSpec  # lists print the text unparsed

    return JobSpec.from_stored(text)


def moment(seconds: float) -> datetime:
    """A time in seconds since 1970 as a value."""
    return datetime.fromtimestamp(seconds, timezone.utc)


@lru_cache(maxsize=256)
def _group_and_segment(above: str) -> tuple[str, str]:
    """The resource group and output path prefix of the jobs below an experiment."""
    id = ResourceId.parse(f"{above}/x")
    return id.group, output_segment(id, "").removesuffix("x/")


def _started(status: RunStatus) -> float | None:
    """When the run began; one that never did began as it ended."""
    return status.result.ended if status.result and status.started is None else status.started


@lru_cache(maxsize=1024)
def _errors(text: str) -> tuple[ErrorDetail, ...]:
    """Errors, cached, since many jobs fail alike."""
    from batchai_magics.models.error_details import ErrorDetail

    return tuple(map(ErrorDetail.from_wire, json.loads(text)))


def _attempt(attempt: runner.Attempt, number: int) -> Attempt:
    ended = None if attempt.ended is None else moment(attempt.ended)
    return Attempt(number, attempt.nodes, moment(attempt.started), ended, attempt.reason)


def _rank(rank: ProcessExit) -> RankExit:
    ended = None if rank.ended is None else moment(rank.ended)
    return RankExit(rank.rank, rank.node, rank.exit_code, ended, rank.peak_bytes)
