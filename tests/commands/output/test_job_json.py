"""A printed job says what its wire form says, with null for each field that has no value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from batchai_magics.backends.service.repository import Record
from batchai_magics.backends.service.runner import RunStatus
from batchai_magics.backends.service.stored_descriptions import RecordedJob, job_spec, stored_text
from batchai_magics.commands.output.resource_json import DURATION_FIELD, as_json, format_time
from batchai_magics.commands.output.table_columns import columns_of, table_of
from batchai_magics.models.job_execution import Attempt
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.resources import JobResource
from batchai_magics.models.resources.job_resource import ATTEMPTS, RANKS, WAITING
from batchai_magics.models.wire_times import duration, parse_time
from tests.models.samples import job_body
from tests.models.test_resource_round_trip import shown_jobs
from tests.widgets.scripted_job import resource

ONLY_ON_THE_WIRE = ("experimentName", "toolType", RANKS)
ONLY_PRINTED = ("resourceGroup", "toolType")


def from_wire(job: JobResource) -> Any:
    """The wire form in the conventions of `az`."""
    data = job.to_wire()
    fields = {**data.pop("properties"), **data}
    return converted({key: value for key, value in fields.items() if key not in ONLY_ON_THE_WIRE})


def converted(value: Any, key: str = "") -> Any:
    if isinstance(value, Mapping):
        return {name: converted(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [converted(item) for item in value]
    if key.endswith("Time") and key != DURATION_FIELD:
        return format_time(parse_time(value))
    return str(duration(value)) if key == DURATION_FIELD else value


def without_nulls(value: Any) -> Any:
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {key: item for key, item in value.items() if item is not None and key not in ONLY_PRINTED}
    return {key: without_nulls(item) for key, item in kept.items()}


@given(shown_jobs)
def test_json_of_a_job_equals_its_wire_form(job: JobResource) -> None:
    data = as_json(job)
    assert without_nulls(data) == from_wire(job)
    assert data["toolType"] == job.spec.toolkit.value
    assert list(data) == sorted(data)


@pytest.mark.parametrize(
    "changes",
    [
        {"constraints": None},
        {"batchaiPatterns": {"z": "a", "y": "/subscriptions/s/resourceGroups/g/x"}},
        {"inputDirectories": [{"id": "A", "path": "/a", "createNew": True}]},
        {"mountVolumes": {"fileServers": [{"fileServer": {"id": "/subscriptions/s/resourceGroups/g/x"},
                                           "relativeMountPath": "nfs"}]}},
        {"batchaiStopIf": ["loss is nan"]},
        {"batchaiSlurm": "--qos=long"},
    ],
)  # fmt: skip
def test_rare_fields_are_printed(changes: dict[str, Any]) -> None:
    fields = {key: value for key, value in job_body(**changes)["properties"].items() if value is not None}
    job = replace(resource(), spec=JobSpec.from_wire({"properties": fields}))
    assert without_nulls(as_json(job)) == from_wire(job)


def test_a_stored_job_is_printed_without_validating_its_description() -> None:
    plain = replace(resource(), spec=JobSpec.from_wire(job_body()), execution=None)
    record = Record(
        str(plain.id), "guid", stored_text(plain.spec), "", plain.provisioning.created.timestamp()
    )
    status = RunStatus(plain.state, plain.state_changed.timestamp())
    job = replace(plain, output_path_segment=RecordedJob.of(record, status).output_path_segment)
    parsed, stored = job_spec.cache_info(), RecordedJob.of(record, status)
    assert as_json(stored) == as_json(job)
    assert table_of([stored], columns_of(stored)) == table_of([job], columns_of(job))
    waiting = stored.with_waiting("behind another job").with_notes(["it is queued"]).with_cost(None)
    assert (waiting.waiting, waiting.notes, waiting.id) == ("behind another job", ("it is queued",), job.id)
    assert job_spec.cache_info() == parsed


def test_each_id_has_its_resource_group_beside_it() -> None:
    data = as_json(replace(resource(), spec=JobSpec.from_wire(job_body())))
    assert data["cluster"]["resourceGroup"] == "g"
    assert data["resourceGroup"] == resource().id.group


def test_waiting_and_attempts_are_printed_behind_the_published_fields() -> None:
    attempt = Attempt(1, ("n1",), resource().state_changed)
    published = list(as_json(resource()))
    for changes, waiting, attempts in [
        ({"waiting": "no node is idle"}, "no node is idle", None),
        ({"attempts": (attempt,)}, None, [attempt.to_wire()]),
    ]:
        data = as_json(replace(resource(), **changes))
        assert list(data) == [*published, WAITING, ATTEMPTS]
        assert (data[WAITING], data[ATTEMPTS]) == (waiting, attempts)
