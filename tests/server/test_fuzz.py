"""Whatever is sent: the right kind of status and of error, and never a defect of the server."""

from __future__ import annotations

import copy
import string
from urllib.parse import quote, urlencode
from xml.etree import ElementTree

import pytest
import requests
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.server.running import GROUP, SUBSCRIPTION, TOKEN, WORKSPACE, Running
from tests.server.storage.signed_urls import account_sas
from tests.wire_bodies import plain_cluster, plain_job

pytestmark = pytest.mark.slow
many = settings(
    max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)

METHODS = ("GET", "PUT", "POST", "PATCH", "DELETE", "HEAD", "OPTIONS", "QUERY")
PLACES = (
    f"{WORKSPACE}/experiments/e/jobs/j",
    f"{WORKSPACE}/experiments/e",
    f"{WORKSPACE}/experiments/e/jobs/j/listOutputFiles",
    f"{WORKSPACE}/experiments/e/jobs/j/terminate",
    f"{WORKSPACE}/clusters/c",
    f"{WORKSPACE}/fileServers/f",
    f"{GROUP}/providers/Microsoft.BatchAI/workspaces",
    f"{GROUP}-fuzz",
    f"{GROUP}/providers/Microsoft.Storage/storageAccounts/acct",
    f"{GROUP}/providers/Microsoft.Storage/storageAccounts/local/listKeys",
    f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.BatchAI/locations/l/operationresults/x",
    f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Authorization/roleAssignments/a",
    f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Storage/checkNameAvailability",
    f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.BatchAI/batchaiLook",
    f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.BatchAI/batchaiStoreFiles",
    f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.BatchAI/batchaiFetchFiles",
    f"{WORKSPACE}/experiments/e/jobs/j/batchaiTail",
    f"{WORKSPACE}/experiments/e/jobs/j/batchaiAhead",
    f"{WORKSPACE}/experiments/e/jobs/j/batchaiRead",
    f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.BatchAI/batchaiLabels",
    f"{WORKSPACE}/experiments/e/batchaiBaseline",
    f"{WORKSPACE}/experiments/e/jobs/j/batchaiRecords",
    f"{WORKSPACE}/experiments/e/jobs/j/batchaiRelabel",
    f"{WORKSPACE}/experiments/e/jobs/j/batchaiExecute",
    f"{WORKSPACE}/clusters/c/batchaiExecute",
    f"{WORKSPACE}/clusters/c/batchaiPreempt",
    f"{WORKSPACE}/clusters/c/batchaiSetupFiles",
)
ODD = st.one_of(
    st.sampled_from(["..", ".", "", " ", "%", "ü", "a" * 300, "a/b", "a\\b", "\0", "'", '"', "$", "x" * 64]),
    st.text(max_size=12),
)
LEAF = st.one_of(
    st.none(), st.booleans(), st.sampled_from([-1, 0, 2**70, 1.5]), ODD, st.just([]), st.just({})
)
ANYTHING = st.recursive(
    LEAF, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ODD, inner, max_size=3)
)
SHARES = {"azureFileShares": [{"accountName": "a", "azureFileUrl": "https://a/b"}]}
CLUSTER = plain_cluster(0, nodeSetup={"mountVolumes": SHARES})
JOB = plain_job(
    f"{WORKSPACE}/clusters/none",
    constraints={"maxWallClockTime": "PT1H"},
    environmentVariables=[{"name": "A", "value": "1"}],
)

OURS = {  # what our own client says
    "ids": [f"{WORKSPACE}/clusters/c", f"{WORKSPACE}/experiments/e/jobs/j"],
    "positions": {"stdout.txt": 1},
    "path": "stdout.txt",
    "paths": ["stdout.txt"],
    "directoryId": "stdouterr",
    "offset": 0,
    "limit": 9,
    "nodeId": "n",
    "command": "true",
}


def places(value: object, path: tuple = ()) -> list[tuple]:
    """The paths of all that is in a value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, item in inner for found in places(item, (*path, key)))]


@st.composite
def descriptions(draw: st.DrawFn) -> object:
    """A description with something else at one place of it, or anything at all."""
    body = copy.deepcopy(draw(st.sampled_from([CLUSTER, JOB, OURS])))
    *before, last = draw(st.sampled_from(places(body)[1:]))
    holder = body
    for key in before:
        holder = holder[key]
    holder[last] = draw(ANYTHING)
    return draw(st.one_of(st.just(body), ANYTHING))


@st.composite
def paths(draw: st.DrawFn) -> str:
    """The path of a resource, with one part of it odd at times."""
    words = draw(st.sampled_from(PLACES)).split("/")
    if draw(st.booleans()):
        words[draw(st.integers(2, len(words) - 1))] = quote(draw(ODD), safe=draw(st.sampled_from(["", "/"])))
    return "/".join(words)


def send(server: Running, method: str, path: str, query: str, **more: object) -> requests.Response:
    """The request as it is written, which no library tidies up."""
    request = requests.Request(method, server.url, **more).prepare()
    request.url = f"{server.url}{path}?{query}"
    with requests.Session() as session:
        return session.send(request)


@many
@given(
    method=st.sampled_from(METHODS),
    path=paths(),
    query=st.dictionaries(
        st.sampled_from(
            [
                "maxresults",
                "$skiptoken",
                "outputdirectoryid",
                "directory",
                "linkexpiryinminutes",
                "batchaiNames",
                "share",
                "service",
            ]
        ),
        ODD,
        max_size=3,
    ),
    body=descriptions(),
)
def test_azure_resource_manager_has_an_answer_to_everything(
    server: Running, method: str, path: str, query: dict, body: object
) -> None:
    said = urlencode({"api-version": "2018-05-01", **query}, errors="replace")
    headers = {"Authorization": f"Bearer {TOKEN}"}
    answer = send(server, method, path, said, json=body, headers=headers)
    assert answer.status_code < 500, answer.text
    if answer.status_code >= 400 and method != "HEAD" and path.startswith("/subscriptions"):
        assert {"code", "message"} <= set(answer.json()["error"])


HEADERS = {
    "x-ms-range": ["bytes=0-3", "bytes=4-", "bytes=9-1", "bytes=-1", "bytes=0-99999999999999999999", "x"],
    "x-ms-content-length": ["0", "4", "-1", "x", "9" * 30],
    "x-ms-write": ["update", "clear", "x"],
    "x-ms-type": ["file"],
    "x-ms-blob-type": ["BlockBlob", "PageBlob"],
    "x-ms-file-rename-source": ["/local/fuzz/a", "http://127.0.0.1/local/other/a", "../x", ""],
    "content-md5": ["x", "AAAA"],
    "x-batchai-client": ["1"],
    "x-batchai-service": ["blob", "x"],
    "x-batchai-upload": ["begin", "write", "finish", "x"],
    "x-batchai-want-digest": ["1"],
    "x-batchai-sha256": ["x", "0" * 64],
    "if-none-match": ["*"],
}


@many
@given(
    method=st.sampled_from(METHODS),
    words=st.lists(st.one_of(st.sampled_from(["fuzz", "a", "b", "sub"]), ODD), max_size=4),
    restype=st.sampled_from([None, "share", "directory", "container", "service", "x"]),
    comp=st.sampled_from(
        [
            None,
            "list",
            "range",
            "properties",
            "rename",
            "rangelist",
            "metadata",
            "block",
            "blocklist",
            "acl",
            "x",
        ]
    ),
    more=st.dictionaries(st.sampled_from(["marker", "prefix", "maxresults", "delimiter", "blockid"]), ODD),
    headers=st.fixed_dictionaries(
        {}, optional={name: st.sampled_from(values) for name, values in HEADERS.items()}
    ),
    body=st.binary(max_size=20),
)
def test_storage_has_an_answer_to_everything(
    server: Running, method: str, words: list, restype: str, comp: str, more: dict, headers: dict, body: bytes
) -> None:
    server.world.backend.storage.make("fuzz")
    server.world.backend.storage.upload("fuzz", {"a": b"text", "sub/b": b""})
    said = {"restype": restype, "comp": comp, **more, **account_sas(server)}
    query = urlencode({name: value for name, value in said.items() if value is not None}, errors="replace")
    path = "/".join(["/local", *(quote(word, safe="", errors="replace") for word in words)])
    answer = send(server, method, path, query, data=body, headers=headers)
    assert answer.status_code < 500, answer.text
    if answer.status_code >= 400 and method != "HEAD":
        assert ElementTree.fromstring(answer.content).find("Code").text == answer.headers["x-ms-error-code"]


@many
@given(
    token=st.text(string.printable, max_size=60),
    sas=st.dictionaries(
        st.sampled_from(["sv", "se", "st", "sp", "ss", "srt", "sr", "sig", "sip", "spr"]), ODD
    ),
)
def test_invented_tokens_and_signatures_open_no_file(server: Running, token: str, sas: dict) -> None:
    server.world.backend.storage.upload("batchaishare", {"closed.txt": b"closed"})
    headers = {"Authorization": quote(token.strip(), safe=" :=,")} if token.strip() else {}
    query = urlencode(sas, errors="replace")
    answer = send(server, "GET", "/local/batchaishare/closed.txt", query, headers=headers)
    assert answer.status_code in (400, 401, 403)
    assert b"closed" not in answer.content
