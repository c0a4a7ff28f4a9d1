"""Files of our own client: a piece is as long as it says, and what it replaces keeps none of its metadata."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from batchai_magics.backends.local.backend import LocalBackend
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.backends.service.dialect.headers import DIGEST, RECEIVED
from batchai_magics.errors import StorageError
from batchai_magics.server.call import Call
from batchai_magics.server.storage import own_uploads
from batchai_magics.server.storage.context import Asked
from batchai_magics.server.storage.errors import StorageRefusal
from batchai_magics.server.storage.metadata import Metadata, Record
from batchai_magics.server.storage.part_files import PartFiles
from batchai_magics.server.storage.request import Resource
from batchai_magics.server.storage.uploads import Uploads

FILE = Resource("local", "file", "data", "in/a")


@dataclass
class Service:
    """What these handlers need of one."""

    backend: LocalBackend
    metadata: Metadata


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    backend = LocalBackend(LocalSettings(home=tmp_path / "home"))
    backend.storage.make("data")
    yield Service(backend, Metadata(tmp_path / "metadata"))
    backend.close()


@pytest.fixture
def asked(service: Service, tmp_path: Path):
    """Makes a request about one file."""
    uploads = Uploads(PartFiles(tmp_path / "notes"))

    def make(body: bytes = b"", **headers: str) -> Asked:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return Asked(service, Call("PUT", "/local/data/in/a", {}, named, body), FILE, uploads)

    return make


def digest(data: bytes) -> dict[str, str]:
    return {DIGEST: hashlib.sha256(data).hexdigest()}


@pytest.mark.parametrize("span", ["bytes=0-8", "bytes=0-2", "bytes=0-", "x", ""])
def test_a_piece_that_is_not_as_long_as_it_says_is_not_taken(service: Service, asked, span: str) -> None:
    for handler in (own_uploads.write, own_uploads.put_whole):
        own_uploads.begin(asked(x_ms_content_length="9"))
        with pytest.raises(StorageRefusal):
            handler(asked(b"text", x_ms_range=span, **digest(b"text")))
        assert own_uploads.begin(asked(x_ms_content_length="9")).headers[RECEIVED] == "0"


def test_a_whole_file_begins_at_its_beginning_and_is_what_its_digest_says(service: Service, asked) -> None:
    with pytest.raises(StorageRefusal):
        own_uploads.put_whole(asked(b"sometext", x_ms_range="bytes=4-7", **digest(b"sometext")))
    with pytest.raises(StorageError, match="damaged"):
        own_uploads.put_whole(asked(b"tex_", x_ms_range="bytes=0-3", **digest(b"text")))
    with pytest.raises(StorageError, match="damaged"):
        own_uploads.put_whole(asked(b"text", x_ms_range="bytes=0-3"))
    assert service.backend.storage.list("data") == []
    assert own_uploads.put_whole(asked(b"text", x_ms_range="bytes=0-3", **digest(b"text"))).status == 201
    assert service.backend.storage.download("data", "in/a") == b"text"


def test_a_file_that_is_replaced_loses_what_was_noted_of_the_old_one(service: Service, asked) -> None:
    def in_pieces() -> None:
        own_uploads.begin(asked(x_ms_content_length="4"))
        own_uploads.write(asked(b"text", x_ms_range="bytes=0-3"))
        own_uploads.finish(asked(**digest(b"text")))

    def whole() -> None:
        own_uploads.put_whole(asked(b"text", x_ms_range="bytes=0-3", **digest(b"text")))

    for put in (in_pieces, whole):
        service.metadata.keep(FILE.key, Record({"run": "7"}))
        put()
        assert service.metadata.of(FILE.key) == {}
