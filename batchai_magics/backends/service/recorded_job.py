"""A job as its record and the status of its run describe it.

Its fields are parsed when they are read: a list has thousands of jobs and few fields are used.
"""

from __future__ import annotations

import json
from datetime import datetime, timezone
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from batchai_magics.backends.service.descriptions import output_segment
from batchai_magics.models.job_execution import Attempt, ExecutionInfo, RankExit
from batchai_magics.models.provisioning import Provisioning
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.resources.job_resource import KeptJob

if TYPE_CHECKING:
    from batchai_magics.backends.service import runner
    from batchai_magics.backends.service.repository import Record
    from batchai_magics.backends.service.runner import RunResult, RunStatus
    from batchai_magics.launch.plan import ProcessExit
    from batchai_magics.models.error_details import ErrorDetail
    from batchai_magics.models.job_spec import JobSpec
    from batchai_magics.models.states import ExecutionState


class RecordedJob:
    """The fields of a JobResource."""

    def __init__(self, record: Record, status: RunStatus) -> None:
        self._record, self._status = record, status
        self.state: ExecutionState = status.state
        self.waiting = status.waiting

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
            errors=_errors_text(result),
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
            return ExecutionInfo(started=moment(started))
        return ExecutionInfo(
            started=moment(started),
            ended=moment(result.ended),
            exit_code=result.exit_code,
            errors=_errors(_errors_text(result)),
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
    def _changed(self) -> float:
        return self._status.changed or self._record.created


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


def _errors_text(result: RunResult | None) -> str:
    errors = [dict(error) for error in (*result.errors, *result.warnings)] if result else []
    return json.dumps(errors) if errors else "[]"


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
