"""`batchai serve` as a process of its own: what it says, whom it lets in, how it ends."""

from __future__ import annotations

import json
import os
import pty
import signal
import stat
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
import requests
from azure.storage.fileshare import (
    AccountSasPermissions,
    ResourceTypes,
    ShareServiceClient,
    generate_account_sas,
)

from batchai_magics.cli import main
from batchai_magics.errors import StorageError, UsageError
from batchai_magics.server import serve_command, server_home
from batchai_magics.server.server_home import ServerHome
from batchai_magics.server.storage.sas import AccountKeys
from batchai_magics.server.storage.storage_resource import OWN_ACCOUNT
from tests.patience import PATIENCE_S
from tests.server.process import Process, started
from tests.server.running import SUBSCRIPTION, VERSION, WORKSPACE
from tests.wire_bodies import plain_cluster, plain_job
from tests.world import processes_of, until


@pytest.mark.slow
def test_a_server_makes_a_token_that_its_owner_alone_can_read_and_believes_no_header_instead(
    tmp_path: Path,
) -> None:
    with started(tmp_path / "home") as server:
        said = server.said[0] + "".join(server.process.stdout.readline() for _ in range(3))
        assert server.token not in said  # which is no terminal
        export = next(line for line in said.splitlines() if "BATCHAI_TOKEN=" in line)
        assert in_a_shell(export, "BATCHAI_TOKEN") == server.token
        assert server.ask("GET", "/subscriptions").json()["value"][0]["subscriptionId"] == SUBSCRIPTION
        assert stat.S_IMODE((server.home / "server" / "token").stat().st_mode) == 0o600
        refused = requests.get(f"{server.url}/subscriptions", params={"api-version": VERSION})
        assert (refused.status_code, refused.json()["error"]["code"]) == (401, "AuthenticationFailed")
        assert requests.get(f"{server.url}/healthz").json() == {"status": "ok"}
        forged = {"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "https"}
        assert server.ask("PUT", WORKSPACE, json={"location": "eastus"}).ok
        gone = server.ask("DELETE", WORKSPACE, headers=forged)
        assert gone.headers["Location"].startswith(f"{server.url}/")
        log = server.home / "server" / "access.log"
        until(log.exists)  # its first line is written behind the answer
        lines = until(lambda: [line for line in log.read_text().splitlines() if '"DELETE"' in line])
        assert json.loads(lines[0])["client"] == "127.0.0.1"
        for bound in ({"ip": "203.0.113.9"}, {"protocol": "https"}):
            url = signed_for(server, **bound)
            assert [requests.get(url, headers=headers).status_code for headers in ({}, forged)] == [403, 403]


def signed_for(server: Process, **bound: str) -> str:
    """A signed URL of the account that is good only for an address, or with TLS."""
    key = AccountKeys(ServerHome(server.home / "server").keys, None).of(OWN_ACCOUNT)[0]
    query = generate_account_sas(
        OWN_ACCOUNT,
        key,
        ResourceTypes(service=True),
        AccountSasPermissions(list=True),
        datetime.now(timezone.utc) + timedelta(hours=1),
        **bound,
    )
    return f"{server.url}/{OWN_ACCOUNT}/?comp=list&{query}"


@pytest.mark.slow
def test_a_server_that_is_told_to_end_leaves_jobs_running_and_the_next_one_shows_them(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with started(home) as server:
        make_job(server, "sleep 1000")
        until(lambda: state(server) == "running")
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE_S) == 0
    with started(home) as server:
        assert state(server) == "running"
        assert server.ask("POST", f"{WORKSPACE}/experiments/e/jobs/j/terminate").status_code == 202
        until(lambda: state(server) == "failed")
    until(lambda: not processes_of(home))


@pytest.mark.slow
def test_what_waits_for_a_job_whose_supervisor_is_killed_ends_while_clients_only_read(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with started(home) as server:
        make_job(server, "sleep 1000")
        until(lambda: state(server) == "running")
        first = [f"{WORKSPACE}/experiments/e/jobs/j"]
        make_job(server, "true", name="second", batchaiAfter=first)
        make_job(server, "true", name="either-way", batchaiAfterAny=first)
        supervisors = [one for one in processes_of(home) if "local.supervisor" in str(one.cmdline())]
        min(supervisors, key=lambda process: process.create_time()).kill()
        until(lambda: state(server, "second") == "failed")
        until(lambda: state(server, "either-way") == "succeeded")
    until(lambda: not processes_of(home))


@pytest.mark.slow
def test_files_only_server_serves_shares_alone(tmp_path: Path) -> None:
    with started(tmp_path / "home", "--files-only") as server:
        line = server.process.stdout.readline()
        text = in_a_shell(line, "AZURE_STORAGE_CONNECTION_STRING")
        assert "AccountKey" not in line
        share = ShareServiceClient.from_connection_string(text, retry_total=0).create_share("data")
        share.get_file_client("a.txt").upload_file(b"text")
        assert (tmp_path / "home" / "shares" / "local" / "data" / "a.txt").read_bytes() == b"text"
        assert server.ask("GET", WORKSPACE).status_code == 404
        assert requests.get(f"{server.url}/msi/x/token").status_code == 404


def make_job(server: Process, line: str, name: str = "j", **fields: object) -> None:
    asked = {
        WORKSPACE: {"location": "eastus"},
        f"{WORKSPACE}/clusters/c": plain_cluster(),
        f"{WORKSPACE}/experiments/e": {},
        f"{WORKSPACE}/experiments/e/jobs/{name}": plain_job(f"{WORKSPACE}/clusters/c", line, **fields),
    }
    for path, body in asked.items():
        answer = server.ask("PUT", path, json=body)
        assert answer.ok, answer.text


def state(server: Process, name: str = "j") -> str:
    return server.ask("GET", f"{WORKSPACE}/experiments/e/jobs/{name}").json()["properties"]["executionState"]


def test_help_names_every_option_and_what_is_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--help"]) == 0
    text = capsys.readouterr().out
    assert all(option.flags[0] in text for option in serve_command.OPTIONS)
    assert "az-config" in text
    assert main(["--help"]) == 0
    assert "serve " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--prot", "1"], 'Did you mean "--port"'),
        (["--host", "0.0.0.0"], "TLS is required"),
        (["--cert", "x.pem"], "--cert and --key belong together"),
        (["--port", "-1"], "expected 0 or more"),
        (["az-config"], "FOLDER"),
    ],
)
def test_a_wrong_line_is_refused_before_anything_is_opened(words: list[str], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        serve_command.main(words)
    assert said in str(caught.value)


def test_a_token_that_others_can_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("a-token-that-is-long-enough\n")
    file.chmod(0o644)
    with pytest.raises(UsageError, match="can be read by others"):
        serve_command.main(["--token-file", str(file)])


def in_a_shell(export: str, name: str) -> str:
    """A variable as a shell has it after a line."""
    line = f'{export.strip()}; printf %s "${name}"'
    return subprocess.check_output(["bash", "-c", line], text=True)


@pytest.mark.slow
def test_a_terminal_is_told_the_token_and_a_server_that_is_told_to_end_right_then_ends(
    tmp_path: Path,
) -> None:
    ours, theirs = pty.openpty()
    env = {**os.environ, "BATCHAI_HOME": str(tmp_path / "home")}
    words = [sys.executable, "-m", "batchai_magics.cli", "serve", "--port", "0"]
    with subprocess.Popen(words, env=env, stdout=theirs, stderr=subprocess.PIPE, text=True) as process:
        os.close(theirs)
        said = b""
        while b"az-config" not in said:
            said += os.read(ours, 4096)
        process.terminate()
        error = process.communicate(timeout=PATIENCE_S)[1]
    os.close(ours)
    assert process.returncode == 0
    assert (tmp_path / "home" / "server" / "token").read_text().strip().encode() in said
    assert ("serving as root" in error) is (os.geteuid() == 0)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("name", ["", "server", "server/token", "server/users.json", "server/tls/ca.key"])
@pytest.mark.parametrize("words", [[], ["user", "add", "first"]], ids=["serve", "user add"])
def test_what_another_user_has_put_into_the_home_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], name: str
) -> None:
    home = tmp_path / "home"
    (home / "server" / "tls").mkdir(parents=True, mode=0o700)
    home.chmod(0o700)
    for file in ("server/token", "server/users.json", "server/tls/ca.key"):
        (home / file).write_text("a-token-that-was-planted-here\n")
        (home / file).chmod(0o600)
    os.chown(home / name, 12345, -1)
    monkeypatch.setenv("BATCHAI_HOME", str(home))
    with pytest.raises(StorageError, match="12345"):
        serve_command.main(words)


def test_a_link_in_the_place_of_a_token_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    (home / "server").mkdir(parents=True)
    home.chmod(0o700)
    (tmp_path / "planted").write_text("a-token-that-was-planted-here\n")
    (tmp_path / "planted").chmod(0o600)
    (home / "server" / "token").symlink_to(tmp_path / "planted")
    monkeypatch.setenv("BATCHAI_HOME", str(home))
    with pytest.raises(StorageError, match="token is a link"):
        serve_command.main([])


@pytest.mark.slow
def test_the_configuration_of_az_is_for_the_server_that_runs_or_is_named(tmp_path: Path) -> None:
    home, az = tmp_path / "home", tmp_path / "az"
    assert "no server runs here" in configured(home, az).stderr
    with started(home) as server, started(home) as second:
        assert "several servers run here" in configured(home, az).stderr
        assert configured(home, az, "--url", second.url).returncode == 0
        second.process.kill()
        second.process.wait(PATIENCE_S)
        assert configured(home, az).stdout == f". {az / 'env'}\n"
        lines = (az / "env").read_text().splitlines()
        env = dict(line.removeprefix("export ").split("=", 1) for line in lines)
        headers = {"X-IDENTITY-HEADER": env["IDENTITY_HEADER"]}
        for asked in (
            requests.get(env["IDENTITY_ENDPOINT"], headers=headers),
            requests.get(env["MSI_ENDPOINT"]),
        ):
            assert asked.json()["access_token"] == server.token
        assert requests.get(env["IDENTITY_ENDPOINT"]).status_code == 404
        assert f"endpoint_resource_manager = {server.url}/" in (az / "clouds.config").read_text()
    assert not server_home.running_servers(home / "server" / "running")


def configured(home: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "batchai_magics.cli", "serve", "az-config", str(folder), *words]
    env = {**os.environ, "BATCHAI_HOME": str(home)}
    return subprocess.run(line, env=env, capture_output=True, text=True, check=False)
