"""Files of our own client: a piece is as long as it says, and what it replaces keeps none of its metadata."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from batchai_magics.backends.local.backend import LocalBackend
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.backends.service.extension_wire import DIGEST, RECEIVED
from batchai_magics.server.api_call import ApiCall
from batchai_magics.server.storage import storage_extensions
from batchai_magics.server.storage.storage_metadata import MetadataStore, StorageRecord
from batchai_magics.server.storage.storage_request import StorageRequest
from batchai_magics.server.storage.storage_resource import StorageApiError, StorageResource
from batchai_magics.server.storage.unfinished_uploads import PartFiles, UnfinishedUploads

FILE = StorageResource("local", "file", "data", "in/a")


@dataclass
class Service:
    """What these handlers need of one."""

    backend: LocalBackend
    metadata: MetadataStore


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    backend = LocalBackend(LocalSettings(home=tmp_path / "home"))
    backend.storage.make("data")
    yield Service(backend, MetadataStore(tmp_path / "metadata"))
    backend.close()


@pytest.fixture
def make_call(service: Service, tmp_path: Path):
    """Makes a request about one file."""
    uploads = UnfinishedUploads(PartFiles(tmp_path / "notes"), service.backend)

    def make(body: bytes = b"", **headers: str) -> StorageRequest:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return StorageRequest(service, ApiCall("PUT", "/local/data/in/a", {}, named, body), FILE, uploads)

    return make


def digest(data: bytes) -> dict[str, str]:
    return {DIGEST: hashlib.sha256(data).hexdigest()}


@pytest.mark.parametrize("span", ["bytes=0-8", "bytes=0-2", "bytes=0-", "x", ""])
def test_uploaded_range_of_another_length_than_its_header_is_refused(
    service: Service, make_call, span: str
) -> None:
    storage_extensions.begin_upload(make_call(x_ms_content_length="9"))
    with pytest.raises(StorageApiError):
        storage_extensions.write_upload(make_call(b"text", x_ms_range=span))
    assert storage_extensions.begin_upload(make_call(x_ms_content_length="9")).headers[RECEIVED] == "0"


def test_a_file_that_is_replaced_loses_what_was_noted_of_the_old_one(service: Service, make_call) -> None:
    service.metadata.set(FILE.key, StorageRecord({"run": "7"}))
    storage_extensions.begin_upload(make_call(x_ms_content_length="4"))
    storage_extensions.write_upload(make_call(b"text", x_ms_range="bytes=0-3"))
    storage_extensions.finish_upload(make_call(**digest(b"text")))
    assert service.metadata.record(FILE.key).metadata == {}
