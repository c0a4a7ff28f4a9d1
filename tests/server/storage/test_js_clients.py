"""Azure Files and blobs by their own libraries for JavaScript, against a real server."""

from __future__ import annotations

import pytest

from tests.server.clients import drive_js
from tests.server.running import Running

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def told(server: Running) -> dict:
    """What the libraries told; the user agent of both says that they are for blobs."""
    return drive_js("drive_js.mjs", server.url, "local", server.context.keys.of("local")[0])


def test_a_share_is_made_once_and_listed(told: dict) -> None:
    assert told["twice"] == [409, "ShareAlreadyExists"]
    assert told["share"] == {"team": "a"}
    assert told["shares"] == ["js-files"]


def test_a_file_comes_back_with_its_properties(told: dict) -> None:
    assert told["file"] == [5, "text/csv", "de", "inline", "max-age=60", {"run": "7"}]
    assert told["range"] == "2,3"
    assert told["changed"] == [3, "text/plain", {"run": "8"}]
    assert told["listed"] == ["data.csv"]


def test_a_file_is_copied_and_deleted(told: dict) -> None:
    assert told["copied"] == "1,2"
    assert told["gone"][0] == 404


def test_a_blob_comes_back_with_its_properties(told: dict) -> None:
    assert told["containers"] == ["js-blobs"]
    assert told["blob"] == ["text/csv", {"run": "7"}, "2,3"]
    assert told["blobs"] == [["in/data.csv", 3 << 20]]


def test_a_blob_that_was_changed_meanwhile_is_not_overwritten(told: dict) -> None:
    assert told["stale"] == [[412, "ConditionNotMet"]] * 3
    assert told["known"][0] == 304
    assert told["paged"] == [400, "InvalidHeaderValue"]
