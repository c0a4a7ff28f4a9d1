"""The genuine management libraries of Batch AI, through every operation that was published."""

from __future__ import annotations

import pytest
import requests

from tests.server.clients import drive
from tests.server.running import SUBSCRIPTION, TOKEN, Running

pytestmark = pytest.mark.slow
# 2.0.0 of 2018, which `az batchai` has, and 7.0.0, the last one; how many of the operations each has.
LIBRARIES = {"mgmt2": 29, "mgmt7": 27}


@pytest.fixture(scope="module", params=LIBRARIES)
def driven(request: pytest.FixtureRequest, server: Running) -> dict:
    """What a library told of all its operations against one server."""
    library = request.param
    told = drive(library, "drive_mgmt.py", server.url, TOKEN, SUBSCRIPTION, f"{library}.rg")
    return {"library": library, **told}


def test_every_operation_is_called_and_every_answer_has_the_published_shape(driven: dict) -> None:
    assert len(driven["calls"]) == LIBRARIES[driven["library"]]
    assert driven["wrong"] == []


def test_a_workspace_has_its_place_and_tags(driven: dict) -> None:
    told = driven["told"]
    assert told["workspace"] == ["ws", "eastus", {"a": "b"}, "succeeded", "Microsoft.BatchAI/workspaces"]
    assert told["tags"] == {"x": "y"}
    assert "ws" in told["workspaces"][0]
    assert told["workspaces"][1] == ["ws"]


def test_a_cluster_has_the_defaults_of_the_service_and_tells_no_secret(driven: dict) -> None:
    told = driven["told"]
    assert told["cluster"] == ["STANDARD_D1", "dedicated", "16.04-LTS"]
    assert told["has secrets"] is False
    assert (told["resized"], told["nodes"]) == (2, 2)


def test_a_job_runs_is_terminated_and_deleted(driven: dict) -> None:
    told = driven["told"]
    assert told["job"] == ["succeeded", 0, "custom"]
    assert told["job nodes"] == 1
    assert told["terminated"] == ["failed", "JobTerminated"]
    assert told["no job"] == [404, "JobNotFound", "The specified job jb is not found"]


def test_a_description_that_is_wrong_is_refused_with_its_field(driven: dict) -> None:
    status, code, message = driven["told"]["no toolkit"]
    assert (status, code) == (400, "InvalidRequest")
    assert "no toolkit is given" in message


def test_output_is_read_at_its_address_until_it_is_deleted(driven: dict) -> None:
    files = driven["told"]["files"]
    assert sorted(files) == ["execution.log", "stderr.txt", "stdout.txt"]
    assert requests.get(files["stdout.txt"]).status_code == 404  # its job is deleted by now


def test_what_a_job_saved_in_its_working_directory_is_listed_and_read(driven: dict) -> None:
    assert driven["told"]["working directory"] == [None, "model.pt", len("saved\n")]
    assert driven["told"]["saved"] == "saved\n"


def test_what_stands_around_is_told(driven: dict) -> None:
    told = driven["told"]
    assert told["usages"] == 17
    assert told["operations"] > 10
    assert told["file server"] == "/data"
    assert told["gone"] == [404, "WorkspaceNotFound", "The specified workspace ws is not found"]
