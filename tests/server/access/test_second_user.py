"""Whatever a second user asks to change of the first one's is refused before anything of it is done."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from batchai_magics.cell import Notebook
from batchai_magics.cell.sweep_request import parse_sweep
from batchai_magics.errors import ServiceError
from batchai_magics.jobs.sweeps.sweep_definition import STOPPED, SweepFiles
from batchai_magics.jobs.sweeps.sweep_handle import RUNNING, Sweep
from batchai_magics.jobs.sweeps.sweep_submission import submit_sweep
from batchai_magics.server.api_routes import ARM_ROUTES, ROUTES
from tests.server.running import GROUP, SUBSCRIPTION, WORKSPACE, Running, connected
from tests.wire_bodies import USER, plain_cluster, plain_job
from tests.world import until

pytestmark = pytest.mark.slow
OWN = f"{GROUP}/providers/Microsoft.BatchAI/workspaces/firsts"
OWN_GROUP = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/firsts"
ACCOUNT = f"{OWN_GROUP}/providers/Microsoft.Storage/storageAccounts/firststorage"
JOB, CLUSTER = f"{OWN}/experiments/e/jobs/j", f"{OWN}/clusters/c"
SERVER = f"{OWN}/fileServers/s"
REFUSED = [
    ("PATCH", OWN, {"tags": {"a": "b"}}),
    ("PUT", OWN, {"location": "local", "tags": {"a": "b"}}),
    ("DELETE", OWN, None),
    ("DELETE", f"{OWN}/experiments/e", None),
    ("PATCH", CLUSTER, {"properties": {"scaleSettings": {"manual": {"targetNodeCount": 0}}}}),
    ("DELETE", CLUSTER, None),
    ("POST", f"{CLUSTER}/batchaiExecute", {"nodeId": "node1", "command": "true"}),
    ("POST", f"{CLUSTER}/batchaiPreempt", {"nodeId": "node1"}),
    ("DELETE", SERVER, None),
    ("DELETE", JOB, None),
    ("POST", f"{JOB}/terminate", None),
    ("POST", f"{JOB}/batchaiRelabel", {"add": ["x"], "remove": []}),
    ("POST", f"{JOB}/batchaiRelabel", {"add": [], "remove": []}),
    ("POST", f"{JOB}/batchaiExecute", {"nodeId": "node1", "command": "true"}),
    ("PUT", OWN_GROUP, {"location": "local", "tags": {"a": "b"}}),
    ("PATCH", OWN_GROUP, {"tags": {"a": "b"}}),
    ("DELETE", OWN_GROUP, None),
    ("DELETE", ACCOUNT, None),
    ("POST", f"{ACCOUNT}/regenerateKey", {"keyName": "key1"}),
]
# Operations that change nothing of anybody's, or that create what does not exist.
HARMLESS = (
    *("batchaiLook", "batchaiHostNote", "batchaiEnsure", "batchaiStoreFiles", "batchaiFetchFiles"),
    *("batchaiAhead", "batchaiRead", "batchaiTail", "batchaiTelemetry", "batchaiRecords", "batchaiLabels"),
    *("batchaiBaseline", "batchaiSetupFiles", "listRemoteLoginInformation", "listOutputFiles"),
    *("listKeys", "checkNameAvailability", "register", "unregister", "{assignment}"),
)


@pytest.fixture(scope="module")
def tokens(server: Running) -> Iterator[tuple[str, str]]:
    """Those of two users, of whom the first has one of everything."""
    first, second = server.add_user("owner"), server.add_user("other")
    file_server = {
        "vmSize": "Standard_D2",
        "sshConfiguration": {"userAccountSettings": USER},
        "dataDisks": {"diskSizeInGB": 10, "diskCount": 1, "storageAccountType": "Standard_LRS"},
    }
    for path, body in (
        (OWN_GROUP, {"location": "local"}),
        (ACCOUNT, {"location": "local", "sku": {"name": "Standard_LRS"}, "kind": "StorageV2"}),
        (OWN, {"location": "local"}),
        (f"{OWN}/experiments/e", None),
        (CLUSTER, plain_cluster()),
        (SERVER, {"location": "local", "properties": file_server}),
        (JOB, plain_job(f"{WORKSPACE}/clusters/default", "exec sleep 1000")),
    ):
        answer = server.ask("PUT", path, token=first, json=body)
        assert answer.ok, (path, answer.text)
    yield first, second
    assert server.ask("DELETE", OWN, token=first).ok


def test_changing_resources_of_another_user_is_refused(server: Running, tokens: tuple[str, str]) -> None:
    shown = [JOB, CLUSTER, OWN, SERVER, OWN_GROUP, ACCOUNT]
    before = [server.json("GET", each, token=tokens[1]) for each in shown]
    for method, path, body in REFUSED:
        answer = server.ask(method, path, token=tokens[1], json=body)
        told = (answer.status_code, answer.json()["error"]["code"])
        assert told == (403, "AuthorizationFailed"), (method, path)
    after = [server.json("GET", each, token=tokens[1]) for each in shown]
    assert [each["name"] for each in before] == [each["name"] for each in after]
    assert after[2].get("tags") == before[2].get("tags")


def test_every_operation_that_changes_something_was_asked_for() -> None:
    asked = {(method, path.rpartition("/")[2]) for method, path, _ in REFUSED}
    endings = {(route.method, route.path.rpartition("/")[2]) for route in (*ROUTES, *ARM_ROUTES)}
    changing = {
        (method, end)
        for method, end in endings
        if method not in ("GET", "HEAD") and end not in HARMLESS and not end.startswith("{")
    }
    assert changing <= asked
    assert {method for method, end in endings if end == "{name}"} - {"GET", "HEAD"} <= {
        method for method, _, _ in REFUSED
    }


def test_another_user_neither_ends_nor_steps_nor_continues_a_sweep(
    server: Running, tokens: tuple[str, str]
) -> None:
    settings = server.world.settings
    first, second = (connected(server.url, token) for token in tokens)
    line = 's --sweep "lr=0.1,0.2" --parallel 1 --processes 1'
    request = parse_sweep(line, "import time\ntime.sleep(1000)", settings=settings, notebook=Notebook())
    own = submit_sweep(first, request, settings).sweep
    until(lambda: any(trial.runs and trial.runs[-1].execution for trial in own.stored_trials()))
    before = own.definition
    others = Sweep.find(second, "s", settings)
    with pytest.raises(ServiceError, match="AuthorizationFailed"):
        others.cancel()
    with pytest.raises(ServiceError, match="AuthorizationFailed"):
        submit_sweep(second, request, settings)
    others.step()
    assert own.definition == before
    assert own.state == RUNNING
    own.cancel()
    files = SweepFiles(second, settings.share, settings.experiment)
    assert files.read("s").ended != STOPPED
    first.close()
    second.close()
