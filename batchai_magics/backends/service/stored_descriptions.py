"""Descriptions as they are stored: what the service adds, fingerprints, and a job's with its run."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from functools import cached_property, lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from batchai_magics.backends.service.host_runs import IMAGE_NOT_USED
from batchai_magics.backends.service.repository import HOST_NOTE
from batchai_magics.errors import StorageError
from batchai_magics.models.job_execution import Attempt, ExecutionInfo, RankExit
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.resources import JobResource
from batchai_magics.models.response_object import Provisioning, WireObject

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from batchai_magics.backends.base import Spec
    from batchai_magics.backends.service.repository import Record
    from batchai_magics.backends.service.runner import RunStatus
    from batchai_magics.launch.outcome import RunAttempt
    from batchai_magics.launch.plan import ProcessExit
    from batchai_magics.models.cluster_spec import ClusterSpec
    from batchai_magics.models.error_details import ErrorDetail
    from batchai_magics.models.job_spec import JobSpec
    from batchai_magics.models.toolkit_settings import Toolkit

_FIELDS_OF_ALL_JOBS = itemgetter("cluster", "nodeCount")


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


class RecordedJob(JobResource):
    """The job of a record and the status of its run; lists need few descriptions and ends."""

    _record: Record
    _status: RunStatus

    @classmethod
    def of(cls, record: Record, status: RunStatus) -> RecordedJob:
        """The job of a record and the status of its run."""
        job = object.__new__(cls)
        id, created = record.resource_id, moment(record.created)
        vars(job).update(
            _record=record,
            _status=status,
            id=id,
            provisioning=Provisioning(created, created),
            state=status.state,
            state_changed=moment(status.changed) if status.changed else created,
            output_path_segment=output_segment(id, record.guid),
            ranks=rank_exits(status),
            waiting=status.waiting,
            attempts=attempts(status),
        )
        return job

    @property
    def waits_for_nodes(self) -> bool:
        """Whether it is queued, holds no nodes, and its engine does not say why."""
        return super().waits_for_nodes and not self._status.nodes

    @cached_property
    def spec(self) -> JobSpec:
        """What it was created with; StorageError if the record is damaged."""
        try:
            return job_spec(self._record.spec)
        except (ValueError, KeyError, TypeError) as error:
            raise self._damaged(error) from None

    @property
    def wire_spec(self) -> WireObject:
        """The fields of its description in the service's JSON, as stored; StorageError as `spec`."""
        try:
            fields: WireObject = json.loads(self._record.spec)["properties"]
            _FIELDS_OF_ALL_JOBS(fields)  # KeyError without one of them
        except (ValueError, KeyError, TypeError) as error:
            raise self._damaged(error) from None
        return fields

    def _damaged(self, error: Exception) -> StorageError:
        text = f"the record of job {self.id.name} is damaged: {error}"
        hint = f"Delete the job: batchai job delete -n {self.id.name}"
        return StorageError(text, code="StateUnavailable", hint=hint)

    @cached_property
    def _stored_fields(self) -> WireObject:
        """For lists: parsing is far cheaper than validating what was valid when it was stored."""
        return self.wire_spec

    @property
    def cluster_id(self) -> str:
        """The ARM id of its cluster."""
        return str(self._stored_fields["cluster"]["id"])

    @property
    def toolkit(self) -> Toolkit:
        """Its toolkit."""
        from batchai_magics.models.toolkit_settings import toolkit_in  # loads the models

        return toolkit_in(self._stored_fields)

    @property
    def node_count(self) -> int:
        """The number of its nodes."""
        return int(self._stored_fields["nodeCount"])

    @cached_property
    def execution(self) -> ExecutionInfo | None:
        """Its times, exit code and errors; None before it starts."""
        note = self._record.more.get(HOST_NOTE)
        return execution_info(self._status, [{"code": IMAGE_NOT_USED, "message": note}] if note else ())


def execution_info(status: RunStatus, notes: Sequence[Mapping[str, Any]] = ()) -> ExecutionInfo | None:
    """Times, exit code and errors of a run, with `notes` behind its warnings; None before it starts."""
    started, result = status.started, status.result
    if started is None and result:
        started = result.ended  # a run that never began did so as it ended
    if started is None:
        return None
    errors = [*result.errors, *result.warnings] if result else [*status.warnings]
    details: tuple[ErrorDetail, ...] = ()
    if errors or notes:
        from batchai_magics.models.error_details import ErrorDetail  # loads the models

        details = tuple(map(ErrorDetail.of_stored, [*errors, *notes]))
    return ExecutionInfo(
        started=moment(started),
        ended=moment(result.ended) if result else None,
        exit_code=result.exit_code if result else None,
        errors=details,
    )


@lru_cache(maxsize=4096)
def job_spec(text: str) -> JobSpec:
    """The job description in a record; cached by its text, since descriptions never change."""
    from batchai_magics.models.job_spec import JobSpec  # completion of names does without the models

    return JobSpec.from_stored(text)


def moment(seconds: float) -> datetime:
    """A time in seconds since 1970 as a value."""
    return datetime.fromtimestamp(seconds, timezone.utc)


def attempts(status: RunStatus) -> tuple[Attempt, ...]:
    """The attempts of a run that had more than one."""
    return tuple(
        Attempt(number, attempt.nodes, moment(attempt.started), _moment_of_end(attempt), attempt.reason)
        for number, attempt in enumerate(status.attempts, start=1)
    )


def rank_exits(status: RunStatus) -> tuple[RankExit, ...]:
    """The exit of each process of a run that has ended, first failure first."""
    return tuple(
        RankExit(rank.rank, rank.node, rank.exit_code, _moment_of_end(rank), rank.peak_bytes)
        for rank in (status.result.ranks if status.result else ())
    )


def _moment_of_end(item: RunAttempt | ProcessExit) -> datetime | None:
    return None if item.ended is None else moment(item.ended)
