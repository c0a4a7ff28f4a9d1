"""What belongs to whom: also to the next server, and of what lies inside something else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from batchai_magics.errors import StorageError
from batchai_magics.server.access.access_control import UNKNOWN_OWNER, Owners


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "owners.jsonl"


def owners_in(file: Path, *lines: tuple[str, str]) -> Owners:
    owners = Owners(file)
    for key, user in lines:
        owners.record(key, user)
    return owners


def test_owners_are_read_by_the_next_server(file: Path) -> None:
    owners = owners_in(file, ("/w", "first"), ("/w/e", "second"), ("/x", "first"))
    owners.forget("/w")
    with file.open("a") as stream:
        stream.write('\n["/y", "fi')  # the server was killed here
    again = Owners(file)
    assert (again.of("/w"), again.of("/w/e"), again.of("/x"), again.of("/y")) == (
        UNKNOWN_OWNER,
        UNKNOWN_OWNER,
        "first",
        UNKNOWN_OWNER,
    )


def test_owner_of_a_resource_and_its_contents_has_no_foreign_resource_in_it(file: Path) -> None:
    owners = owners_in(file, ("/w", "first"), ("/w/e", "first"), ("/w/e/j", "second"), ("/wide", "second"))
    assert owners.first_foreign("first", "/w") == ("/w/e/j", "second")
    assert owners.first_foreign("second", "/w/e/j") is None
    assert owners.first_foreign("second", "/w/e") == ("/w/e", "first")
    assert owners.first_foreign("first", "/unknown") == ("/unknown", UNKNOWN_OWNER)
    owners.forget("/w/e/j")
    assert owners.first_foreign("first", "/w") is None


def test_forgetting_an_owner_keeps_resources_with_a_similar_name(file: Path) -> None:
    owners = owners_in(file, ("/w", "first"), ("/w/e", "first"), ("/w2", "second"), ("/w2/e", "second"))
    owners.forget("/w")
    for known in (owners, Owners(file)):
        assert [known.of(key) for key in ("/w", "/w/e", "/w2", "/w2/e")] == [
            UNKNOWN_OWNER,
            UNKNOWN_OWNER,
            "second",
            "second",
        ]


def test_resource_created_again_belongs_to_its_new_creator(file: Path) -> None:
    owners = owners_in(file, ("/w", "first"))
    owners.forget("/w")
    owners.record("/w", "second")
    assert owners.of("/w") == Owners(file).of("/w") == "second"


@pytest.mark.parametrize("left", [[("/x", "second")], []])
def test_starting_server_drops_removed_and_incomplete_owners(file: Path, left: list[tuple[str, str]]) -> None:
    owners_in(file, ("/w", "first"), *left).forget("/w")
    with file.open("a") as stream:
        stream.write('\n["/y", "fi')
    Owners(file).record("/z", "second")
    lines = file.read_text().strip().splitlines()
    assert lines == [json.dumps(line) for line in (*left, ("/z", "second"))]
    assert Owners(file).of("/z") == "second"


def test_half_a_line_of_a_full_disk_takes_no_later_one_with_it(file: Path) -> None:
    owners = owners_in(file, ("/w", "first"))
    with file.open("a") as stream:
        stream.write('\n["/y", "fi')  # the rest did not fit
    owners.record("/z", "second")
    again = Owners(file)
    assert (again.of("/w"), again.of("/y"), again.of("/z")) == ("first", UNKNOWN_OWNER, "second")


@pytest.mark.parametrize("line", ['{"id": "/w", "user": "first"}', '{"gone": "/w"}', '["/w", 7]', "7"])
def test_owners_of_another_version_are_refused_and_stay(file: Path, line: str) -> None:
    owners_in(file, ("/x", "first"))
    with file.open("a") as stream:
        stream.write(f"\n{line}\n")
    before = file.read_text()
    with pytest.raises(StorageError, match="another version") as caught:
        Owners(file)
    assert "move the file away" in caught.value.hint
    assert file.read_text() == before
