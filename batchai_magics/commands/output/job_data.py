"""A job as `az` prints it, made from the JSON of its description: nothing is read into a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from batchai_magics.commands.output.job_fields import ERROR, JOB, TOOLS, Fields, Filled
from batchai_magics.commands.output.tidy import SPAN, group_of, moment, span, tidy
from batchai_magics.models.ids import Kind
from batchai_magics.models.resources.jobs import ATTEMPTS, WAITING

if TYPE_CHECKING:
    from batchai_magics.models.execution import ExecutionInfo
    from batchai_magics.models.resources import JobResource

_BESIDE = (  # what is printed of a job beside its description
    "id",
    "name",
    "type",
    "resourceGroup",
    "creationTime",
    "provisioningState",
    "provisioningStateTransitionTime",
    "toolType",
    "jobOutputDirectoryPathSegment",
    "executionState",
    "executionStateTransitionTime",
    "executionInfo",
)


class Shape:
    """What is printed of an object: all of its fields by name, null for those that it leaves out."""

    def __init__(self, fields: Fields, beside: tuple[str, ...] = ()) -> None:
        blank = {**dict.fromkeys(beside), **{key: _default(field) for key, field in fields.items()}}
        self._blank: dict[str, Any] = dict(sorted(blank.items()))
        self._makers = {key: _maker(key, field) for key, field in fields.items()}

    def filled(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The fields with all that were left out; KeyError for one that it cannot have."""
        data = self._blank.copy()
        for key, value in fields.items():
            make = self._makers[key]
            data[key] = make(value) if make else value
        return data


class Beside(NamedTuple):
    """What is printed of a job beside its description, JSON-ready."""

    id: str
    name: str
    group: str
    created: str
    provisioning: str
    provisioned: str  # since when `provisioning` is so
    segment: str
    state: str
    changed: str  # since when `state` is so
    execution: Any


def job_data(job: JobResource) -> dict[str, Any]:
    """JSON-ready data of a job."""
    id, made, info = job.id, job.provisioning, job.execution
    created = moment(made.created)
    beside = Beside(
        id=str(id),
        name=id.name,
        group=id.group,
        created=created,
        provisioning=made.state.value,
        provisioned=created if made.changed is made.created else moment(made.changed),
        segment=job.output_path_segment,
        state=job.state.value,
        changed=moment(job.state_changed),
        execution=info and _execution(info),
    )
    data = with_description(job.description, beside)
    if job.waiting or job.attempts:  # which the service could not tell
        data[WAITING] = job.waiting or None
        data[ATTEMPTS] = [attempt.to_wire() for attempt in job.attempts] or None
    return data


def with_description(description: Mapping[str, Any], beside: Beside) -> dict[str, Any]:
    """JSON-ready data of the job that has this description."""
    data = _job_shape().filled(description)
    data["id"], data["name"], data["resourceGroup"] = beside.id, beside.name, beside.group
    data["type"] = Kind.JOB.wire_type
    data["creationTime"], data["provisioningState"] = beside.created, beside.provisioning
    data["provisioningStateTransitionTime"] = beside.provisioned
    data["toolType"] = next(tool for key, tool in TOOLS.items() if key in description)
    data["jobOutputDirectoryPathSegment"] = beside.segment
    data["executionState"], data["executionStateTransitionTime"] = beside.state, beside.changed
    data["executionInfo"] = beside.execution
    return data


def execution_data(
    started: str, ended: str | None, exit_code: int | None, errors: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """JSON-ready data of how a job ran; `errors` are the fields of its ErrorDetails."""
    return {
        "endTime": ended,
        "errors": list(map(_error_shape().filled, errors)) or None,
        "exitCode": exit_code,
        "startTime": started,
    }


def _execution(info: ExecutionInfo) -> dict[str, Any]:
    errors = [error.to_wire() for error in info.errors]
    return execution_data(
        moment(info.started), moment(info.ended) if info.ended else None, info.exit_code, errors
    )


@lru_cache(maxsize=1)
def _job_shape() -> Shape:
    return Shape(JOB, _BESIDE)


@lru_cache(maxsize=1)
def _error_shape() -> Shape:
    return Shape(ERROR)


def _default(field: Fields | Filled | str | None) -> Any:
    """What stands for a field that was left out."""
    if isinstance(field, Filled):
        return Shape(field.fields).filled({})
    return field if isinstance(field, str) else None


def _maker(key: str, field: Fields | Filled | str | None) -> Callable[[Any], Any] | None:
    """What makes a field's value of its JSON; None where that is what is printed."""
    if key == SPAN:
        return span
    if isinstance(field, Filled):
        return _object_maker(field.fields)
    if isinstance(field, Mapping):
        return _object_maker(field) if field else tidy
    return None


def _object_maker(fields: Fields) -> Callable[[Any], Any]:
    shape, has_id = Shape(fields), "id" in fields

    def one(fields: Mapping[str, Any]) -> dict[str, Any]:
        data = shape.filled(fields)
        group = group_of(data["id"]) if has_id else None
        return dict(sorted([*data.items(), ("resourceGroup", group)])) if group else data

    return lambda value: [one(item) for item in value] if isinstance(value, list) else one(value)
