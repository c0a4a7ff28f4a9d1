"""Users: added and removed while a server runs, let in by their token, and kept from what is not theirs."""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path

import pytest

from batchai_magics.errors import NotFoundError, UsageError
from batchai_magics.server import serve_command
from batchai_magics.server.access.access_control import Users
from batchai_magics.server.server_home import ServerHome
from tests.server.running import GROUP, SUBSCRIPTION, TOKEN, WORKSPACE, Running
from tests.world import until

EXPERIMENTS = f"{WORKSPACE}/experiments"
LOOK = f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.BatchAI/batchaiLook"


def test_a_token_is_told_once_and_kept_as_a_digest(tmp_path: Path) -> None:
    users = Users(tmp_path / "users.json")
    token = users.add("first")
    text = (tmp_path / "users.json").read_text()
    assert token not in text
    assert stat.S_IMODE((tmp_path / "users.json").stat().st_mode) == 0o600
    assert list(users.tokens().values()) == ["first"]


def test_another_process_adds_and_removes_users(tmp_path: Path) -> None:
    watching, changing = (Users(tmp_path / "users.json") for _ in range(2))
    assert watching.tokens() == {}
    changing.add("first")
    assert list(watching.tokens().values()) == ["first"]
    changing.remove("first")
    assert watching.tokens() == {}


@pytest.mark.parametrize("name", ["", "a b", "a/b", "ä", "a" * 65, "a\n", "admin", "Admin", "first", "FIRST"])
def test_invalid_or_existing_user_name_is_refused(tmp_path: Path, name: str) -> None:
    users = Users(tmp_path / "users.json")
    users.add("first")
    with pytest.raises(UsageError):
        users.add(name)


def test_the_shell_adds_lists_and_removes_users(capsys: pytest.CaptureFixture[str]) -> None:
    assert serve_command.main(["user", "add", "first"]) == 0
    assert "export BATCHAI_TOKEN=" in capsys.readouterr().out
    serve_command.main(["user", "list"])
    assert capsys.readouterr().out.startswith("first  since ")
    serve_command.main(["user", "remove", "first"])
    with pytest.raises(NotFoundError):
        serve_command.main(["user", "remove", "first"])


def test_a_change_in_place_is_noticed_by_its_time(tmp_path: Path) -> None:
    file = tmp_path / "users.json"
    users, kept = Users(file), file.with_name("kept")
    users.add("first")
    kept.write_bytes(file.read_bytes())
    users.remove("first")
    assert users.tokens() == {}
    file.write_bytes(kept.read_bytes())  # an editor writes into the same file
    os.utime(file, ns=(1, 1))
    assert list(users.tokens().values()) == ["first"]


def test_another_file_of_the_same_time_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "users.json"
    users = Users(file)
    users.add("first")
    os.utime(file, ns=(1, 1))
    assert len(users.tokens()) == 1
    users.add("second")
    os.utime(file, ns=(1, 1))  # two changes within one tick of the file system's clock
    assert len(users.tokens()) == 2


@pytest.fixture
def first(server: Running) -> str:
    return server.add_user("first")


def status(server: Running, token: str, method: str, path: str, **more: object) -> int:
    return server.ask(method, path, token=token, **more).status_code


@pytest.mark.slow
def test_workspace_with_resources_of_others_cannot_be_deleted(server: Running, first: str) -> None:
    workspace, second = f"{GROUP}/providers/Microsoft.BatchAI/workspaces/firsts", server.add_user("second")
    assert status(server, first, "PUT", workspace, json={"location": "eastus"}) == 200
    assert status(server, second, "PUT", f"{workspace}/experiments/seconds") == 200
    assert status(server, first, "DELETE", workspace) == 403
    assert status(server, TOKEN, "DELETE", workspace) == 202


@pytest.mark.slow
def test_every_change_is_written_down_with_who_made_it_and_without_a_secret(
    server: Running, first: str
) -> None:
    secret = {"a": "the-secret-of-this-test"}
    status(server, first, "PUT", f"{EXPERIMENTS}/logged", params={"sig": "signed"}, json=secret)
    status(server, "forged-token", "GET", WORKSPACE)
    assert status(server, first, "POST", LOOK, json={"ids": []}) == 200  # changes nothing
    status(server, first, "DELETE", f"{EXPERIMENTS}/logged")
    log = ServerHome.of(server.world.settings).access_log
    deleted = re.compile(r'"DELETE".*/logged"')  # the last line of this test: others share the server
    until(lambda: deleted.search(log.read_text()))
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    changes = [line for line in lines if line["path"].endswith("/logged")]
    written = [(line["user"], line["method"], line["status"]) for line in changes]
    assert written == [("first", "PUT", 200), ("first", "DELETE", 202)]
    assert 401 in [line["status"] for line in lines]
    assert not any("batchaiLook" in line["path"] for line in lines)
    assert not any(word in log.read_text() for word in ("the-secret", "signed", first, "forged-token", TOKEN))


@pytest.mark.parametrize(
    "text", ["[]", '"alice"', "7", '{"alice": "x"}', '{"alice": {"sha256": 7, "added": ""}}', "[" * 9999, "{"]
)
def test_a_file_of_users_of_a_wrong_structure_is_one_clear_line(tmp_path: Path, text: str) -> None:
    file = tmp_path / "users.json"
    file.write_text(text)
    for use in (lambda: Users(file).added(), lambda: Users(file).add("bob"), lambda: Users(file).tokens()):
        with pytest.raises(UsageError, match=r"users\.json cannot be read") as caught:
            use()
        assert "\n" not in caught.value.message
    assert file.read_text() == text  # nobody is added over it
