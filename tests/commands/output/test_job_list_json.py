"""A job's text made of what a store keeps is the text of its data, to the byte."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchai_magics.backends.local.state.run_status import StoredStatus
from batchai_magics.backends.service.repository import Record
from batchai_magics.backends.service.stored_descriptions import RecordedJob
from batchai_magics.commands.output import job_list_json
from batchai_magics.commands.output.command_result import Result
from batchai_magics.commands.output.job_list_json import JobListJson
from batchai_magics.commands.output.result_formats import escaped_json
from batchai_magics.models.error_details import ErrorDetail, NameValue
from batchai_magics.models.job_execution import ExecutionInfo
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.prices import Cost
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.resources import JobResource
from batchai_magics.models.response_object import Provisioning
from batchai_magics.models.states import ExecutionState
from tests.models.samples import job_body
from tests.models.test_resource_round_trip import shown_jobs

ID = "/subscriptions/s/resourceGroups/{}/providers/Microsoft.BatchAI/workspaces/w/experiments/e/jobs/{}"
STRANGE = [
    "plain",
    '50 %s "quoted"',
    "two\nlines\t",
    "back\\slash",
    "é\u202e\x7f",
    "",
    "%",
    ": ",
    '\\": "',
    "/",
    "\ue0001\ue000",
    "\U0001f600",
]
FAILED = {"code": "JobFailed", "message": "exit code 1, 100 %", "details": [{"name": "Rank", "value": "3"}]}


def stored_job(spec: JobSpec, **changes: Any) -> JobResource:
    """A job as the local store gives it."""
    record = {
        "id": ID.format("g", "j1"),
        "guid": "0-1",
        "spec": json.dumps(spec.to_wire()),
        "fingerprint": "",
        "created": 1.5,
    }
    row = {
        "state": "queued",
        "changed": 2.0,
        "started": None,
        "ended": None,
        "exit_code": None,
        "errors": "[]",
        "ranks": "[]",
        "attempts": "[]",
    }
    own = {name: changes.get(name, value) for name, value in record.items()}
    status = {name: changes.get(name, value) for name, value in row.items()}
    return JobResource.reading_later(RecordedJob(Record(**own), StoredStatus(Row(status), ())))


class Row(dict[str, Any]):
    """A row of a database: its values in turn, or by name."""

    def __iter__(self) -> Any:
        return iter(self.values())


def spec(**fields: Any) -> JobSpec:
    body = {key: value for key, value in job_body(**fields)["properties"].items() if value is not None}
    return JobSpec.from_wire({"properties": body})


def by_data(job: JobResource) -> str:
    """The same job read field by field, and printed by `json`."""
    read = JobResource(**{name: getattr(job, name) for name in JobResource.__dataclass_fields__})
    assert read.kept is None
    return Result([read]).to_text("json")


def assert_printed_alike(jobs: list[JobResource]) -> None:
    texts = JobListJson()
    for job in jobs:
        assert escaped_json(f"[{texts.item_of(job)}\n]") == by_data(job)


@given(shown_jobs)
def test_any_job_is_printed_as_its_data(job: JobResource) -> None:
    assert_printed_alike([stored_job(job.spec), stored_job(job.spec, id=ID.format("other", "j2"))])


@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")) | st.sampled_from(STRANGE),
        min_size=2,
        max_size=4,
    )
)
def test_jobs_of_one_form_are_printed_with_their_own_texts(texts: list[str]) -> None:
    variables = ([{"name": "A", "value": text}, {"name": "B", "value": text * 2}] for text in texts)
    assert_printed_alike([stored_job(spec(environmentVariables=each)) for each in variables])


@pytest.mark.parametrize("text", STRANGE)
def test_a_strange_text_is_printed_in_the_form_of_a_plain_one(text: str) -> None:
    def job(argument: str) -> JobResource:
        settings = {"pythonScriptFilePath": "a.py", "commandLineArgs": argument}
        return stored_job(spec(customToolkitSettings=None, horovodSettings=settings))

    assert_printed_alike([job("plain"), job(text), job("plain again")])


def test_a_job_of_a_known_form_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = JobListJson()
    texts.item_of(stored_job(spec(stdOutErrPathPrefix="/one")))
    for reader in ("_document", "_converted_item"):
        monkeypatch.setattr(job_list_json, reader, None)
    job = stored_job(spec(stdOutErrPathPrefix="/two"), id=ID.format("g", "j2"), guid="9", changed=7.25)
    told = json.loads(f"[{texts.item_of(job)}\n]")[0]
    assert (told["name"], told["stdOutErrPathPrefix"]) == ("j2", "/two")
    assert told["jobOutputDirectoryPathSegment"].endswith("/jobs/j2/9")
    assert told["executionStateTransitionTime"] == "1970-01-01T00:00:07.250000+00:00"


def test_a_text_like_a_placeholder_is_printed_as_it_is() -> None:
    assert_printed_alike([stored_job(spec(batchaiPatterns={"\ue0001\ue000": "(.*)"}))])


def test_a_requeued_job_is_printed_with_its_attempts() -> None:
    attempts = [
        {"nodes": ["n1"], "started": 1.0, "ended": 2.0, "reason": "lost"},
        {"nodes": ["n2"], "started": 3.0},
    ]
    assert_printed_alike([stored_job(spec()), stored_job(spec(), attempts=json.dumps(attempts))])


def of_cluster(group: str, span: str) -> JobResource:
    cluster = f"/subscriptions/s/resourceGroups/{group}/providers/Microsoft.BatchAI/workspaces/w/clusters/c"
    return stored_job(spec(cluster={"id": cluster}, constraints={"maxWallClockTime": span}))


def test_what_a_text_decides_is_told_for_each_job() -> None:
    assert_printed_alike([of_cluster("g", "P7D"), of_cluster("h", "PT30M"), of_cluster("g", "PT30M")])


def test_all_forms_are_printed_though_few_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_list_json, "MAX_TEMPLATES", 2)
    assert_printed_alike([stored_job(spec(nodeCount=count)) for count in (1, 2, 3, 1, 4, 2)])


@pytest.mark.parametrize("errors", [[], [FAILED], [FAILED, {"code": "é", "message": "\ue000"}]])
@pytest.mark.parametrize(("ended", "exit_code"), [(None, None), (9.001, 1), (9.0, None)])
def test_how_it_ran_is_printed_as_its_data(
    errors: list[dict[str, Any]], ended: float | None, exit_code: int | None
) -> None:
    ran = {"started": 3.999, "ended": ended, "exit_code": exit_code, "errors": json.dumps(errors)}
    job = stored_job(spec(), state="failed", **ran)
    assert_printed_alike([job, stored_job(spec(), id=ID.format("g", "j2"), state="failed", **ran)])


def test_what_the_store_keeps_is_what_the_job_tells() -> None:
    job = stored_job(spec(), state="failed", started=3.0, ended=4.0, exit_code=1, errors=json.dumps([FAILED]))
    created, error = datetime.fromtimestamp(1.5, timezone.utc), ErrorDetail(
        code="JobFailed", message="exit code 1, 100 %", details=(NameValue(name="Rank", value="3"),)
    )  # fmt: skip
    assert job.id == ResourceId.parse(ID.format("g", "j1"))
    assert job.provisioning == Provisioning(created, created)
    assert job.state is ExecutionState.FAILED
    assert job.execution == ExecutionInfo(
        started=datetime.fromtimestamp(3, timezone.utc),
        ended=datetime.fromtimestamp(4, timezone.utc),
        exit_code=1,
        errors=(error,),
    )


def test_a_cost_comes_behind_the_fields_of_a_stored_job() -> None:
    cost, jobs = Cost(1.25, "EUR"), [stored_job(spec()), stored_job(spec(), started=3.0)]
    assert jobs[1].kept
    texts = JobListJson(lambda job: cost if job.execution else None)
    text = f"[{','.join(map(texts.item_of, jobs))}\n]"
    assert text == Result([jobs[0], jobs[1].with_cost(cost)]).to_text("json")
