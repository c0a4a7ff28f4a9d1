"""Private images: pulled by a real engine from a real registry that wants a password, which nothing keeps."""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from batchai_magics.backends.node import containers
from batchai_magics.errors import CapabilityError, SpecError
from batchai_magics.models.states import ExecutionState
from tests.backends.local.boxes import IMAGE
from tests.ports import free_port
from tests.world import PATIENCE_S, World, files_containing, until

USER, PASSWORD = "me", "hush-hush"
# What `htpasswd -B` makes of the two.
HTPASSWD = "me:$2y$05$Z4cJJyhqUWaAudDNOFktteEURuYiTvSrKnwnu1syonF3l7MvqkNSu"
CONFIG = """
version: 0.1
log: {{level: error}}
storage: {{filesystem: {{rootdirectory: {folder}/images}}}}
http: {{addr: 127.0.0.1:{port}}}
auth: {{htpasswd: {{realm: ours, path: {folder}/htpasswd}}}}
"""


@dataclass(frozen=True)
class Registry:
    """A registry on this machine, and the engine that jobs use."""

    server: str
    engine: list[str]

    @property
    def image(self) -> str:
        return f"{self.server}/team/ours:1"

    def settings(self, password: str = PASSWORD) -> dict[str, object]:
        credentials = {"username": USER, "password": password}
        source = {"serverUrl": f"http://{self.server}", "image": "team/ours:1", "credentials": credentials}
        return {"imageSourceRegistry": source}

    def forget(self) -> None:
        """Makes the next job pull the image."""
        subprocess.run([*self.engine, "rmi", "--force", self.image], capture_output=True, check=False)


@pytest.fixture(scope="module")
def served(engine: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """A registry that holds a private image."""
    program = shutil.which("docker-registry")
    if not program:
        pytest.skip("docker-registry is not installed")
    folder = tmp_path_factory.mktemp("registry")
    port = free_port()
    (folder / "htpasswd").write_text(HTPASSWD + "\n")
    (folder / "config.yml").write_text(CONFIG.format(folder=folder, port=port))
    log = (folder / "log").open("wb")
    with subprocess.Popen([program, "serve", str(folder / "config.yml")], stdout=log, stderr=log) as child:
        made = Registry(f"127.0.0.1:{port}", engine.split())
        until(lambda: answers(port) or child.poll() is not None)
        subprocess.run([*made.engine, "tag", IMAGE, made.image], check=True)
        with containers.registry_login(
            folder / "sign-in", made.image, username=USER, password=PASSWORD
        ) as signed_in:
            push, env = [*made.engine, "push", made.image], {**os.environ, **signed_in}
            done = subprocess.run(push, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        yield made
        child.terminate()
    log.close()


def answers(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.slow
def test_a_private_image_is_pulled_with_its_credentials(boxes: World, served: Registry) -> None:
    served.forget()
    job = boxes.start("cat /in-the-image; env", containerSettings=served.settings()).wait(PATIENCE_S)
    assert job.state is ExecutionState.SUCCEEDED, job.log(file="execution.log")
    assert job.log().startswith("yes\n")
    assert files_containing(boxes.home, "team/ours")
    assert not files_containing(boxes.home, PASSWORD)  # nor any variable of the job, which it printed
    assert not list(boxes.home.rglob("config.json"))
    shown = json.dumps(job.show().to_wire())
    assert (USER in shown, PASSWORD in shown, PASSWORD in repr(job.show())) == (True, False, False)


@pytest.mark.slow
def test_a_wrong_password_fails_the_job_by_the_services_code(boxes: World, served: Registry) -> None:
    served.forget()
    job = boxes.start("true", containerSettings=served.settings("guessed-it")).wait(PATIENCE_S)
    (error,) = job.show().execution.errors
    assert (error.code, error.details[0].value) == ("FailedStartingContainer", served.image)
    assert "could not be pulled" in error.message
    assert not files_containing(boxes.home, "guessed-it")


@pytest.mark.slow
def test_a_sign_in_that_a_killed_supervisor_left_is_gone_with_the_job(world: World) -> None:
    job = world.start("echo up; sleep 1000")
    until(lambda: job.log() == "up\n")
    left = world.backend.layout.job(world.guid(job)).registry
    left.mkdir()
    (left / "config.json").write_text("{}")
    world.supervisor(job).kill()
    until(lambda: job.is_done and not left.exists())


def test_credentials_without_a_password_are_refused_before_anything_is_written(world: World) -> None:
    source = {"image": "x", "credentials": {"username": "me"}}
    with pytest.raises(SpecError, match=r"credentials\.password"):
        world.start("true", containerSettings={"imageSourceRegistry": source})
    vault = {"sourceVault": {"id": "v"}, "secretUrl": "https://v/secrets/a"}
    source = {"image": "x", "credentials": {"username": "me", "passwordSecretReference": vault}}
    with pytest.raises(CapabilityError, match="passwordSecretReference"):
        world.start("true", containerSettings={"imageSourceRegistry": source})


# -- the sign-in ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("server", "image", "full", "signed_in_at"),
    [
        ("https://me.azurecr.io/", "tf:1", "me.azurecr.io/tf:1", "me.azurecr.io"),
        ("me.azurecr.io", "me.azurecr.io/tf:1", "me.azurecr.io/tf:1", "me.azurecr.io"),
        ("", "me.azurecr.io/tf:1", "me.azurecr.io/tf:1", "me.azurecr.io"),
        ("http://127.0.0.1:5000", "a/b", "127.0.0.1:5000/a/b", "127.0.0.1:5000"),
        ("https://index.docker.io/v1/", "me/tf", "docker.io/me/tf", containers.HUB),
        ("", "me/tf:1", "me/tf:1", containers.HUB),
    ],
)
def test_the_registry_of_an_image_is_known(server: str, image: str, full: str, signed_in_at: str) -> None:
    assert containers.image_name(server, image) == full
    assert containers.registry_of(full) == signed_in_at


def test_a_sign_in_is_for_this_user_and_this_pull_alone(tmp_path: Path) -> None:
    folder = tmp_path / "registry"
    with containers.registry_login(folder, "me.azurecr.io/tf", username="me", password=PASSWORD) as env:
        file = Path(env["REGISTRY_AUTH_FILE"])
        assert (stat.S_IMODE(folder.stat().st_mode), stat.S_IMODE(file.stat().st_mode)) == (0o700, 0o600)
        assert list(json.loads(file.read_text())["auths"]) == ["me.azurecr.io"]
        assert "CONTAINERS_REGISTRIES_CONF" not in env  # plain HTTP is for this machine alone
    assert not folder.exists()


def test_a_sign_in_leaves_docker_the_engine_that_its_user_chose(tmp_path: Path, monkeypatch) -> None:
    own = tmp_path / "own"
    (own / "contexts").mkdir(parents=True)
    (own / "config.json").write_text('{"currentContext": "rootless", "auths": {"other": {"auth": "x"}}}')
    monkeypatch.setenv("DOCKER_CONFIG", str(own))
    with containers.registry_login(tmp_path / "r", "me.azurecr.io/tf", username="me", password="x") as env:
        body = json.loads(Path(env["REGISTRY_AUTH_FILE"]).read_text())
        assert (body["currentContext"], list(body["auths"])) == ("rootless", ["me.azurecr.io"])
        assert Path(env["DOCKER_CONFIG"], "contexts").resolve() == own / "contexts"
