"""The genuine management libraries of Batch AI, through every operation that was published."""

from __future__ import annotations

import pytest
import requests

from tests.server.clients import drive
from tests.server.running import SUBSCRIPTION, TOKEN, Running

pytestmark = pytest.mark.slow
# 2.0.0 of 2018, which `az batchai` has, and 7.0.0, the last one; how many of the operations each has.
LIBRARIES = {"mgmt2": 29, "mgmt7": 27}


@pytest.mark.parametrize("library", LIBRARIES)
def test_management_library_gets_the_responses_of_the_service(server: Running, library: str) -> None:
    driven = drive(library, "drive_mgmt.py", server.url, TOKEN, SUBSCRIPTION, f"{library}.rg")
    told = driven["told"]
    assert len(driven["calls"]) == LIBRARIES[library]
    assert driven["wrong"] == []
    assert told["workspace"] == ["ws", "eastus", {"a": "b"}, "succeeded", "Microsoft.BatchAI/workspaces"]
    assert told["tags"] == {"x": "y"}
    assert "ws" in told["workspaces"][0]
    assert told["workspaces"][1] == ["ws"]
    assert told["cluster"] == ["STANDARD_D1", "dedicated", "16.04-LTS"]
    assert told["has secrets"] is False
    assert (told["resized"], told["nodes"]) == (2, 2)
    assert told["job"] == ["succeeded", 0, "custom"]
    assert told["job nodes"] == 1
    assert told["terminated"] == ["failed", "JobTerminated"]
    assert told["no job"] == [404, "JobNotFound", "The specified job jb is not found"]
    status, code, message = told["no toolkit"]
    assert (status, code) == (400, "InvalidRequest")
    assert "no toolkit is given" in message
    files = told["files"]
    assert sorted(files) == ["execution.log", "stderr.txt", "stdout.txt"]
    assert requests.get(files["stdout.txt"]).status_code == 404  # its job is deleted by now
    assert told["working directory"] == [None, "model.pt", len("saved\n")]
    assert told["saved"] == "saved\n"
    assert told["usages"] == 17
    assert "Creates a new Batch AI job or updates an existing Batch AI job" in told["operations"]
    assert told["file server"] == "/data"
    assert told["gone"] == [404, "WorkspaceNotFound", "The specified workspace ws is not found"]
