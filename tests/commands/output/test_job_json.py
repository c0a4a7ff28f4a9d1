"""A job as it is printed, made from the JSON of its description, is what its models would print."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from batchai_magics.commands.output.az_json import model_fields, to_az_json
from batchai_magics.commands.output.job_json import job_data
from batchai_magics.models.job import JobSpec
from batchai_magics.models.resources import JobResource
from tests.models.samples import job_body
from tests.models.test_resource_round_trip import shown_jobs
from tests.widgets.scripted import resource


def by_models(job: JobResource) -> dict[str, Any]:
    info, made = job.execution, job.provisioning
    ran = info and {
        "startTime": info.started,
        "endTime": info.ended,
        "exitCode": info.exit_code,
        "errors": info.errors or None,
    }
    beside = {
        "id": str(job.id),
        "name": job.id.name,
        "type": job.id.kind.wire_type,
        "creationTime": made.created,
        "provisioningState": made.state,
        "provisioningStateTransitionTime": made.changed,
        "toolType": job.spec.toolkit,
        "jobOutputDirectoryPathSegment": job.output_path_segment,
        "executionState": job.state,
        "executionStateTransitionTime": job.state_changed,
        "executionInfo": ran,
    }
    return to_az_json({**model_fields(job.spec), **beside})


class Kept:
    """A job whose description was kept as JSON."""

    def __init__(self, job: JobResource) -> None:
        self.__dict__ = {**vars(job), "description": json.loads(json.dumps(job.description))}
        del self.spec

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was asked for")


@given(shown_jobs)
def test_it_is_what_the_models_print(job: JobResource) -> None:
    expected = json.dumps(by_models(job), indent=2)
    assert json.dumps(job_data(job), indent=2) == expected
    assert json.dumps(job_data(JobResource.reading_later(Kept(job))), indent=2) == expected


@pytest.mark.parametrize(
    "changes",
    [
        {"constraints": None},
        {"batchaiPatterns": {"z": "a", "id": "/subscriptions/s/resourceGroups/g/x"}},
        {"inputDirectories": [{"id": "A", "path": "/a", "createNew": True}]},
        {"mountVolumes": {"fileServers": [{"fileServer": {"id": "/subscriptions/s/resourceGroups/g/x"},
                                           "relativeMountPath": "nfs"}]}},
        {"batchaiStopIf": ["loss is nan"]},
    ],
)  # fmt: skip
def test_what_descriptions_seldom_have_is_printed_alike(changes: dict[str, Any]) -> None:
    fields = {key: value for key, value in job_body(**changes)["properties"].items() if value is not None}
    spec = JobSpec.from_wire({"properties": fields})
    data = job_data(replace(resource(), spec=spec))
    assert {key: data[key] for key in to_az_json(model_fields(spec))} == to_az_json(model_fields(spec))
    assert list(data) == sorted(data)
