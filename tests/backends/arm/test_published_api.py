"""An endpoint without our extensions: the published API and Azure Files are enough."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from batchai_magics.backends.arm import server_extensions
from batchai_magics.backends.arm.arm_backend import ArmBackend
from batchai_magics.backends.azure import arm_client
from batchai_magics.backends.base import CONTAINERS, NODE_COMMANDS, PREEMPTION, SETUP_LOGS, FileRef
from batchai_magics.errors import CapabilityError, NotFoundError
from batchai_magics.models.job_execution import FileKind
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.resources import ExperimentSpec, WorkspaceSpec
from batchai_magics.records.record_files import SUBMISSION
from tests.server.running import SUBSCRIPTION, WORKSPACE, Running, connected
from tests.wire_bodies import plain_job
from tests.world import until

pytestmark = pytest.mark.slow
ID = ResourceId.parse(WORKSPACE)
EXPERIMENT = ID.child(Kind.EXPERIMENT, "default")


@pytest.fixture
def backend(server: Running, monkeypatch: pytest.MonkeyPatch) -> Iterator[ArmBackend]:
    """Our own client of a server that says nothing of what it is; operations take their long way."""
    monkeypatch.setattr(arm_client, "REPRESENTATION", "handling=lenient")
    monkeypatch.setattr(server_extensions.extension_wire, "info_from_wire", lambda data, name: None)
    made = connected(server.url)
    made.accounts.create("plain", "batchai", "eastus")
    yield made
    made.close()


@pytest.fixture
def share(backend: ArmBackend, server: Running, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A share, found where the server has it: a name of Azure's own does not lead to this machine."""
    address = f"{server.url}/plain"
    monkeypatch.setattr(backend.storage._clients, "_address", lambda name: address)
    backend.storage.make("plain/data")
    yield "plain/data"
    backend.storage.remove("plain/data")


def job(name: str, command: str) -> tuple[ResourceId, JobSpec]:
    body = plain_job(f"{WORKSPACE}/clusters/default", command)
    return EXPERIMENT.child(Kind.JOB, name), JobSpec.from_wire(body)


def test_what_it_has_not_is_said_by_name(backend: ArmBackend) -> None:
    for facet in (CONTAINERS, NODE_COMMANDS, PREEMPTION, SETUP_LOGS):
        with pytest.raises(CapabilityError, match=f"the arm backend has no {facet.label}"):
            facet.of(backend)
    assert backend.capabilities.pace.poll_interval_s == 2.0
    assert backend.capabilities.pace.max_wait_s == 0.0


def test_records_of_runs_are_not_sent_to_it(backend: ArmBackend, server: Running) -> None:
    id, spec = job("unrecorded", "true")
    backend.create(id, spec, records={SUBMISSION: "{}"})
    assert server.world.backend.records.read(id, [SUBMISSION]) == {}


def test_a_job_runs_and_its_log_is_read_from_its_address(backend: ArmBackend) -> None:
    id, spec = job("plain", "printf 0123456789; printf abc >&2; exit 3")
    assert backend.create(id, spec).id == id
    until(lambda: backend.show(id).state.is_final)
    file = FileRef(id, "stdout.txt")
    chunk = backend.read(file, 3, 4)
    assert (chunk.data, chunk.offset, chunk.size, chunk.is_complete) == (b"3456", 3, 10, True)
    at_end = backend.read(file, 10)
    assert (at_end.data, at_end.size) == (b"", 10)
    assert backend.read(FileRef(id, "nothere.txt")).size == 0
    tail = backend.tail(id, {"stdout.txt": 4})
    assert {name: piece.data for name, piece in tail.items()}.items() >= {
        "stdout.txt": b"456789",
        "stderr.txt": b"abc",
    }.items()
    look = backend.status([id, ID.child(Kind.CLUSTER, "default")])
    assert look.of(id).execution.exit_code == 3
    assert backend.names(EXPERIMENT, Kind.JOB, "PLA") == ["plain"]


def test_long_operations_are_waited_for(backend: ArmBackend) -> None:
    workspace = ResourceId(SUBSCRIPTION, "long", "ws", Kind.WORKSPACE, "ws")
    backend.create(workspace, WorkspaceSpec(location="eastus"))
    backend.create(workspace.child(Kind.EXPERIMENT, "e"), ExperimentSpec())
    backend.delete(workspace)
    with pytest.raises(NotFoundError):
        backend.show(workspace)
    backend.groups.create("gone", "eastus")
    backend.groups.delete("gone")
    assert "gone" not in [group.name for group in backend.groups.list()]


def test_files_and_folders_are_shown_renamed_and_deleted(backend: ArmBackend, share: str) -> None:
    storage = backend.storage
    storage.upload(share, {"in/er/a": b"1", "b": b"22"})
    assert [(file.path, file.kind) for file in storage.list(share)] == [
        ("b", FileKind.FILE),
        ("in", FileKind.DIRECTORY),
    ]
    assert storage.show(share, "in").is_directory
    assert storage.show(share, "b") == storage.list(share)[0]
    storage.change(share, "b", 1, b"333")
    assert storage.download(share, "b") == b"2333"
    for path, data in {"b": b"23", "c": b"\0\0"}.items():  # the second one is new
        storage.resize(share, path, 2)
        assert storage.download(share, path) == data
    storage.delete(share, "c")
    storage.rename(share, "in", "out")
    assert storage.read(share, "out/er/a", 0, 9) == b"1"
    storage.delete(share, "out")
    assert [file.path for file in storage.list(share)] == ["b"]
    assert storage.digest(share, "b") == ""
    with pytest.raises(NotFoundError):
        storage.show(share, "out")
