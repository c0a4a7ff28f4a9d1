"""A job of one user that prints its secret: what others read of its log, by whichever way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import requests
from azure.storage.fileshare import ShareServiceClient

from batchai_magics.backends.arm.arm_backend import ArmBackend
from batchai_magics.backends.base import Copy, FileRef
from batchai_magics.jobs.job_logs import chunks, consume
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.server.storage.storage_resource import OWN_ACCOUNT
from tests.server.running import Running, connected
from tests.wire_bodies import plain_job
from tests.world import until

pytestmark = pytest.mark.slow
SECRET = "hunter2-in-the-open"
STARS = "*" * len(SECRET)
LOG = f"token: {SECRET}\nmore\n".encode()
MASKED = f"token: {STARS}\nmore\n".encode()
SHARE = "batchaishare"


@dataclass(frozen=True)
class Leak:
    """A job of alice that has printed its secret, and how alice, bob and the administrator see the server."""

    server: Running
    job: ResourceId
    alice: ArmBackend
    bob: ArmBackend
    admin: ArmBackend

    @property
    def file(self) -> FileRef:
        return FileRef(self.job, "stdout.txt")

    @property
    def path_on_share(self) -> str:
        return f"{self.alice.show(self.job).output_path_segment}/stdouterr/stdout.txt"


@pytest.fixture(scope="module")
def leak(server: Running) -> Iterator[Leak]:
    alice, bob = (connected(server.url, server.add_user(name)) for name in ("alice", "bob"))
    admin = connected(server.url)
    job = server.world.job_id("leaky")
    secrets = [{"name": "TOKEN", "value": SECRET}]
    body = plain_job(server.world.cluster, 'echo "token: $TOKEN"; echo more', secrets=secrets)
    alice.create(job, JobSpec.from_wire(body))
    until(lambda: alice.show(job).state.is_final)
    yield Leak(server, job, alice, bob, admin)
    for each in (alice, bob, admin):
        each.close()


def test_owner_reads_the_log_unmasked_with_the_masked_copy(leak: Leak) -> None:
    chunk = leak.alice.read(leak.file)
    assert (chunk.data, chunk.redacted.data) == (LOG, MASKED)
    assert chunk.seal


@pytest.mark.parametrize("who", ["bob", "admin"])
def test_other_users_read_masked_logs_without_digests(leak: Leak, who: str) -> None:
    backend = getattr(leak, who)
    for chunk in (backend.read(leak.file), backend.tail(leak.job, {})["stdout.txt"]):
        assert chunk.data == MASKED
        assert (chunk.seal, chunk.before) == (None, b"")
    assert backend.read(leak.file, 10, 5).data == MASKED[10:15]
    assert SECRET.encode() not in backend.read(leak.file, 20).before


def test_other_users_follow_the_masked_log_to_its_end(leak: Leak) -> None:
    pieces: list[bytes] = []
    assert consume(chunks(leak.bob, leak.file), lambda chunk: pieces.append(chunk.data)) == ""
    assert b"".join(pieces) == MASKED


def test_public_url_of_a_log_shows_asterisks_for_secrets(leak: Leak) -> None:
    listing = f"{leak.job}/listOutputFiles"
    listed = leak.server.json("POST", listing, params={"outputdirectoryid": "stdouterr"})["value"]
    url = next(file["downloadUrl"] for file in listed if file["name"] == "stdout.txt")
    assert requests.get(url).content == MASKED
    assert requests.get(url, headers={"Range": "bytes=9-12"}).content == MASKED[9:13]


def test_secrets_in_logs_are_masked_for_clients_with_the_account_key(leak: Leak, tmp_path) -> None:
    key = leak.server.context.keys.of(OWN_ACCOUNT)[0]
    credential = {"account_name": OWN_ACCOUNT, "account_key": key}
    account = ShareServiceClient(f"{leak.server.url}/{OWN_ACCOUNT}", credential=credential)
    with account, account.get_share_client(SHARE) as share:
        assert share.get_file_client(leak.path_on_share).download_file().readall() == MASKED
    other = leak.path_on_share.replace("stdout.txt", "stderr.txt")
    copies = [Copy(tmp_path / str(n), path, 1) for n, path in enumerate((leak.path_on_share, other))]
    list(leak.bob.storage.fetch(SHARE, copies[:1]))
    assert (tmp_path / "0").read_bytes() == MASKED
    list(leak.bob.storage.fetch(SHARE, copies))
    assert (tmp_path / "0").read_bytes() == MASKED
