"""Azure Files and blobs by their own libraries for JavaScript, against a real server."""

from __future__ import annotations

import pytest

from tests.server.clients import drive_js
from tests.server.running import Running

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def results(server: Running) -> dict:
    """What the libraries told; the user agent of both says that they are for blobs."""
    return drive_js("drive_js.mjs", server.url, "local", server.context.keys.of("local")[0])


def test_a_share_is_made_once_and_listed(results: dict) -> None:
    assert results["twice"] == [409, "ShareAlreadyExists"]
    assert results["share"] == {"team": "a"}
    assert results["shares"] == ["js-files"]


def test_a_file_comes_back_with_its_properties(results: dict) -> None:
    assert results["file"] == [5, "text/csv", "de", "inline", "max-age=60", {"run": "7"}]
    assert results["range"] == "2,3"
    assert results["changed"] == [3, "text/plain", {"run": "8"}]
    assert results["listed"] == ["data.csv"]


def test_a_file_is_copied_and_deleted(results: dict) -> None:
    assert results["copied"] == "1,2"
    assert results["gone"][0] == 404


def test_a_blob_comes_back_with_its_properties(results: dict) -> None:
    assert results["containers"] == ["js-blobs"]
    assert results["blob"] == ["text/csv", {"run": "7"}, "2,3"]
    assert results["blobs"] == [["in/data.csv", 3 << 20]]


def test_a_blob_that_was_changed_meanwhile_is_not_overwritten(results: dict) -> None:
    assert results["stale"] == [[412, "ConditionNotMet"]] * 3
    assert results["known"][0] == 304
    assert results["paged"] == [400, "InvalidHeaderValue"]
