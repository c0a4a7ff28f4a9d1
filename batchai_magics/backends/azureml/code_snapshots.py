"""The code of jobs: the programs of nodes and uploaded files, stored once for the same contents."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from urllib.parse import quote, urlsplit

from batchai_magics.backends.azureml.connection import Connection
from batchai_magics.backends.azureml.job_names import SEGMENTS
from batchai_magics.backends.node.program_files import PACKAGE, program_files
from batchai_magics.errors import NotFoundError, ServiceError

_FOLDER = "code"  # in the container of a snapshot
_NODE = "backends/azureml/node"
_TIME = (1980, 1, 1, 0, 0, 0)  # of files in an archive: the same contents make the same archive
_PARALLEL = 8  # uploads at the same time
_TEMPORARY = {"pendingUploadType": "TemporaryBlobReference"}


class CodeSnapshots:
    """The code versions of a workspace, named by their contents. Thread-safe."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._stored: set[str] = set()  # paths of versions that are known to be there

    def id_of(self, files: Mapping[str, bytes]) -> str:
        """The id of the code with the programs of nodes and these files; sends nothing."""
        return f"{self._connection.address.path}/{_path(_digest(_contents(files)))}"

    def store(self, files: Mapping[str, bytes]) -> None:
        """Uploads the code with the programs of nodes and these files unless it is there."""
        contents = _contents(files)
        digest = _digest(contents)
        path = _path(digest)
        if path not in self._stored and not self._exists(path):
            self._upload(path, contents, digest)
        self._stored.add(path)

    def _exists(self, path: str) -> bool:
        try:
            self._connection.send(self._connection.request("GET", path))
        except NotFoundError:
            return False
        return True

    def _upload(self, path: str, contents: Mapping[str, bytes], digest: str) -> None:
        """Uploads files to a container of their own, and registers it: before that, nothing is there."""
        request = self._connection.request("POST", f"{path}/startPendingUpload", _TEMPORARY)
        found = self._connection.request_json(request).get("blobReferenceForConsumption") or {}
        address = str((found.get("credential") or {}).get("sasUri") or "")
        if not address.startswith("https://"):
            raise ServiceError("the service gives no address to upload code to", code="NoUploadAddress")
        with ThreadPoolExecutor(_PARALLEL) as pool:
            for _ in pool.map(lambda item: self._write(address, *item), contents.items()):
                continue
        parts = urlsplit(address)
        uri = f"https://{parts.netloc}{parts.path.rstrip('/')}/{_FOLDER}"
        hashes = {"hash_sha256": digest, "hash_version": "202208"}
        body = {"properties": {"codeUri": uri, "isAnonymous": True, "properties": hashes}}
        self._connection.send(self._connection.request("PUT", path, body))

    def _write(self, address: str, name: str, data: bytes) -> None:
        parts = urlsplit(address)
        path = f"{parts.path.rstrip('/')}/{_FOLDER}/{quote(name)}"
        self._connection.write_blob(parts._replace(path=path).geturl(), data)


def _contents(files: Mapping[str, bytes]) -> Mapping[str, bytes]:
    return {**_programs(), **{f"{SEGMENTS}/files/{name}": data for name, data in files.items()}}


def _path(digest: str) -> str:
    return f"codes/{SEGMENTS}-{digest[:32]}/versions/1"


def _digest(contents: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name, data in sorted(contents.items()):
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()


@cache
def _programs() -> Mapping[str, bytes]:
    """What nodes run: the program that the service starts, and an archive of all others."""
    start = (PACKAGE / _NODE / "start.py").read_bytes()
    return {f"{SEGMENTS}/start.py": start, f"{SEGMENTS}/programs.zip": _archive()}


def _archive() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in program_files(_NODE):
            info = zipfile.ZipInfo(f"{PACKAGE.name}/{name}", _TIME)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, (PACKAGE / name).read_bytes())
        archive.writestr(zipfile.ZipInfo(f"{PACKAGE.name}/__init__.py", _TIME), b"")
    return buffer.getvalue()
