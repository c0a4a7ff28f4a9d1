"""Descriptions of jobs: what was given comes back, and all that is wrong is told at once."""

import json

import pytest

from batchai_magics.errors import SpecError
from batchai_magics.models.job_spec import JobSpec
from tests.models.job.problems import problems
from tests.models.samples import job_body

SHARE = {
    "accountName": "a",
    "azureFileUrl": "https://a.file.core.windows.net/s",
    "credentials": {},
    "relativeMountPath": "afs",
}


def test_defaults_are_those_of_the_service():
    body = job_body(schedulingPriority=None, constraints=None)
    wire = JobSpec.from_wire(body).to_wire()["properties"]
    assert wire["schedulingPriority"] == "normal"
    assert wire["constraints"] == {"maxWallClockTime": "P7D"}


def test_secrets_leave_only_when_asked_for():
    spec = JobSpec.from_wire(job_body())
    for shown in (repr(spec), str(spec), json.dumps(spec.to_wire()), json.dumps(spec.to_masked_wire())):
        assert "hidden" not in shown
        assert "'key'" not in shown
    assert spec.to_masked_wire()["properties"]["secrets"] == [{"name": "TOKEN", "value": "***"}]
    assert spec.to_wire()["properties"]["mountVolumes"]["azureFileShares"][0]["credentials"] == {}


def test_all_problems_are_told_at_once():
    found = problems(nodeCount=0, horovodSettings={"processCount": "4"}, nodeCuont=1, stdOutErrPathPrefix=3)
    assert set(found) == {
        "properties.nodeCount",
        "properties.horovodSettings.pythonScriptFilePath",
        "properties.horovodSettings.processCount",
        "properties.nodeCuont",
        "properties.stdOutErrPathPrefix",
    }
    assert 'Did you mean "nodeCount"?' in found["properties.nodeCuont"]


def test_two_toolkits_are_refused():
    found = problems(customToolkitSettings={"commandLine": "true"})
    assert "more than one toolkit is given (customToolkitSettings, horovodSettings)" in found["properties"]


def test_no_toolkit_is_refused():
    assert "no toolkit is given" in problems(horovodSettings=None)["properties"]


@pytest.mark.parametrize("time", ["", "P", "PT", "two hours", "PT0S", "0:00:00", f"P{10**12}D", "P1Y"])
def test_an_impossible_time_is_refused(time):
    assert list(problems(constraints={"maxWallClockTime": time})) == [
        "properties.constraints.maxWallClockTime"
    ]


@pytest.mark.parametrize(
    "time", ["PT30M", "P7D", "P1W", "7.00:00:00", "2:00:00", "7 days, 0:00:00", "PT1.5S"]
)
def test_a_time_keeps_its_spelling(time):
    spec = JobSpec.from_wire(job_body(constraints={"maxWallClockTime": time}))
    assert spec.constraints.max_wall_clock_time == time


@pytest.mark.parametrize(
    "changes",
    [
        {"secrets": ["hunter2"]},
        {"secrets": "TOKEN=hunter2"},
        {"secrets": [{"name": "TOKEN=hunter2", "value": "x"}]},
        {"secrets": [{"name": "A", "value": {"hunter2": 1}}]},
        {"secrets": [{"name": "A", "value": "[concat('hunter2', 'x')]", "nope": 1}]},
        {"mountVolumes": {"azureFileShares": [{**SHARE, "credentials": "hunter2"}]}},
        {"mountVolumes": {"azureFileShares": ["hunter2"]}},
        {"mountVolumes": {"azureFileShares": [{**SHARE, "azureFileUrl": "a.windows.net/s?sig=hunter2"}]}},
        {"mountVolumes": "hunter2"},
        {"secrets": [{"name": "A", "value": "hunter2"}], "nodeCount": "\ud800"},
        {"secrets": [{"name": "A", "value": "hunter2\ud800"}]},
    ],
)
def test_no_problem_repeats_what_may_hold_a_secret(changes):
    assert "hunter2" not in json.dumps(problems(**changes))


def test_a_lone_surrogate_is_named_by_its_place():
    found = problems(environmentVariables=[{"name": "A", "value": "x\udc80"}])
    assert list(found) == ["properties.environmentVariables[0].value"]
    assert "lone surrogate" in found["properties.environmentVariables[0].value"]


@pytest.mark.parametrize("data", [None, [], "text", 3])
def test_what_is_no_object_is_refused(data):
    with pytest.raises(SpecError, match="expected a JSON object"):
        JobSpec.from_wire(data)


@pytest.mark.parametrize("data", [{}, {"properties": None}, {"properties": []}, {"nodeCount": 1}])
def test_a_job_without_properties_is_refused(data):
    with pytest.raises(SpecError, match="properties: this object is required"):
        JobSpec.from_wire(data)


def test_a_spec_made_in_python_checks_itself():
    spec = JobSpec.from_wire(job_body())
    with pytest.raises(ValueError, match="no toolkit is given"):
        JobSpec(cluster=spec.cluster, node_count=1, std_out_err_path_prefix="x")
