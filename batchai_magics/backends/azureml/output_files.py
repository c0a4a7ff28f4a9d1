"""The output directories of jobs, and the datastores where the service keeps them; `stdouterr` among them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from functools import partial
from math import inf
from typing import Any
from urllib.parse import quote, urlencode
from xml.etree import ElementTree

from batchai_magics.backends.azureml.connection import BlobRange, Connection
from batchai_magics.backends.azureml.job_logs import WatchedLogs
from batchai_magics.backends.azureml.jobs import AzureJob
from batchai_magics.backends.azureml.node.node_setup import SHARE_OUTPUT
from batchai_magics.backends.azureml.run_details import other_logs, rank_logs
from batchai_magics.backends.azureml.ttl_cache import TtlCache
from batchai_magics.backends.base import Chunk, api_errors
from batchai_magics.errors import NotFoundError, ServiceError
from batchai_magics.models.job_execution import ARTIFACTS, RUN_FOLDERS, FileKind, OutputFile
from batchai_magics.models.job_spec import OutputDirectory

_URI = re.compile(r"azureml://(?:.*/)?datastores/(?P<name>[^/]+)/paths/(?P<path>.*)")
_SAS_VERSION = "2021-12-02"
_ACCESS_S = 3000.0  # how long an access is used; signatures are valid for an hour
_UNSIGNED = ("snapshot", "ses", "rscc", "rscd", "rsce", "rscl", "rsct")


@dataclass(frozen=True)
class BlobAccess:
    """The authorization of requests to a container: a signature, or a header with a token."""

    query: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class BlobFolder:
    """A folder of a blob datastore."""

    datastore: str  # the name of the datastore
    url: str  # the address of its container
    path: str  # the folder's path in the container, without slashes at its ends

    def name_of(self, path: str) -> str:
        """The name of the blob at a path below the folder."""
        return "/".join(part for part in (self.path, path.strip("/")) if part)


class Datastores:
    """The datastores of a workspace. Identity-based ones are read with the user's own token."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._containers = TtlCache[str](lambda _: inf)
        self._access = TtlCache[BlobAccess](lambda _: _ACCESS_S)

    def folder(self, uri: str) -> BlobFolder | None:
        """The folder of an address such as `azureml://datastores/NAME/paths/P`; None if it has no blobs."""
        match = _URI.fullmatch(uri)
        url = self._containers.get(match["name"], partial(self._container, match["name"])) if match else ""
        return BlobFolder(match["name"], url, match["path"].strip("/")) if match and url else None

    def entries(self, folder: BlobFolder, path: str = "") -> Iterator[OutputFile]:
        """The files and folders directly below a path, in the service's order; without addresses."""
        name = folder.name_of(path)
        prefix, marker = f"{name}/" if name else "", ""
        while True:
            access = self._access_to(folder)
            query = {"restype": "container", "comp": "list", "delimiter": "/", "prefix": prefix}
            more = {"marker": marker} if marker else {}
            url = f"{folder.url}?{urlencode({**query, **more})}&{access.query}".rstrip("&")
            page = ElementTree.fromstring(self._connection.read_text(url, access.headers))
            for element in page.findall("Blobs/*"):
                path = (element.findtext("Name") or "").removeprefix(f"{folder.path}/" if folder.path else "")
                if element.tag == "BlobPrefix":
                    yield OutputFile(path.rstrip("/"), FileKind.DIRECTORY, 0)
                elif path and not path.endswith("/"):
                    modified = element.findtext("Properties/Last-Modified")
                    size = int(element.findtext("Properties/Content-Length") or 0)
                    time = parsedate_to_datetime(modified) if modified else None
                    yield OutputFile(path, FileKind.FILE, size, time)
            marker = page.findtext("NextMarker") or ""
            if not marker:
                return

    def read(self, folder: BlobFolder, path: str, offset: int, limit: int) -> BlobRange | None:
        """A range of a file; None if it does not exist."""
        access = self._access_to(folder)
        return self._connection.read_blob(self._url(folder, path, access), offset, limit, access.headers)

    def address(self, folder: BlobFolder, path: str) -> str | None:
        """A signed address of a file; None where only tokens are accepted."""
        access = self._access_to(folder)
        return self._url(folder, path, access) if access.query else None

    def _url(self, folder: BlobFolder, path: str, access: BlobAccess) -> str:
        url = f"{folder.url}/{quote(folder.name_of(path))}"
        return f"{url}?{access.query}" if access.query else url

    def _container(self, name: str) -> str:
        """The address of a datastore's container; empty for other kinds of datastore."""
        data = self._connection.request_json(self._connection.request("GET", f"datastores/{name}"))
        store = data.get("properties") or {}
        host = f"{store.get('accountName')}.blob.{store.get('endpoint') or 'core.windows.net'}"
        is_blob = store.get("datastoreType") == "AzureBlob"
        return f"https://{host}/{store.get('containerName')}" if is_blob else ""

    def _access_to(self, folder: BlobFolder) -> BlobAccess:
        return self._access.get(folder.datastore, partial(self._read_access, folder))

    def _read_access(self, folder: BlobFolder) -> BlobAccess:
        """The access by the datastore's key or signature, else by the user's own token."""
        path = f"datastores/{folder.datastore}/listSecrets"
        try:
            secrets = self._connection.request_json(self._connection.request("POST", path, {}))
        except NotFoundError:
            raise
        except ServiceError:  # identity-based, or the user may not read secrets
            return BlobAccess(headers=self._connection.storage_headers())
        if secrets.get("sasToken"):
            return BlobAccess(str(secrets["sasToken"]).lstrip("?"))
        expiry = datetime.now(timezone.utc) + timedelta(hours=1)
        return BlobAccess(container_signature(folder.url, str(secrets.get("key") or ""), expiry))


def container_signature(url: str, key: str, expiry: datetime) -> str:
    """A signature (SAS) to list and read a container until a time, made with its account's key.

    The signed text has a line for each field; those that are not used are empty.
    """
    host, _, container = url.removeprefix("https://").partition("/")
    fields = {
        "sp": "rl",
        "se": expiry.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "spr": "https",
        "sv": _SAS_VERSION,
        "sr": "c",
    }
    resource = f"/blob/{host.partition('.')[0]}/{container}"
    lines = [fields["sp"], "", fields["se"], resource, "", "", fields["spr"], fields["sv"], fields["sr"]]
    text = "\n".join([*lines, *("" for _ in _UNSIGNED)])
    digest = hmac.new(base64.b64decode(key), text.encode(), hashlib.sha256).digest()
    return urlencode({**fields, "sig": base64.b64encode(digest).decode()})


_RUN_STORE = "azureml://datastores/workspaceartifactstore/paths/ExperimentRun/dcid."
_MOUNTED = re.compile(r"\$(\{)?AZ_BATCHAI_(?:JOB_)?MOUNT_ROOT(?(1)\})/(?P<path>.*)")
_DEFAULT_OUTPUT = "default"  # the service's own: all files of a run


class OutputFiles:
    """Files that jobs wrote into their output directories."""

    def __init__(self, datastores: Datastores) -> None:
        self._datastores = datastores

    def list(self, job: AzureJob, directory_id: str, path: str, limit: int | None) -> Sequence[OutputFile]:
        """One level of an output directory, sorted by name.

        Raises:
            NotFoundError: There is no such output directory or folder.
        """
        folder = self._folder(job, directory_id)
        entries = sorted(self._datastores.entries(folder, path), key=lambda entry: entry.path)
        if not entries and path.strip("/"):
            raise NotFoundError(f"there is no folder {path.strip('/')}", code="FileNotFound")
        address = partial(self._datastores.address, folder)
        return [
            replace(entry, download_url=address(entry.path) if entry.is_file else None)
            for entry in entries[:limit]
        ]

    def read(self, job: AzureJob, directory_id: str, path: str, offset: int, limit: int) -> Chunk:
        """A piece of a file; an empty chunk if it does not exist.

        Raises:
            NotFoundError: There is no such output directory, or the path is a folder.
        """
        folder = self._folder(job, directory_id)
        blob = self._datastores.read(folder, path, offset, limit)
        if blob is not None:
            return Chunk(blob.data[:limit], offset, blob.size, job.state.is_final, generation=blob.etag)
        if next(iter(self._datastores.entries(folder, path)), None):
            raise NotFoundError(f"{path.rpartition('/')[2]} is a folder, not a file", code="FileNotFound")
        return Chunk(b"", offset, 0, job.state.is_final)

    def _folder(self, job: AzureJob, directory_id: str) -> BlobFolder:
        """The folder in which the service keeps an output directory.

        Raises:
            NotFoundError: The job has no such directory, or it is only on its nodes.
        """
        uri = self._uri(job, directory_id)
        folder = self._datastores.folder(uri) if uri else None
        if folder is None:
            path_prefixes = [
                item.path_prefix for item in job.spec.output_directories or () if item.id == directory_id
            ]
            location = uri or next(iter(path_prefixes), f"$AZ_BATCHAI_{directory_id}")
            raise api_errors.output_directory_not_here(directory_id, location)
        return folder

    def _uri(self, job: AzureJob, directory_id: str) -> str:
        outputs: Mapping[str, Any] = job.properties.get("outputs") or {}
        if directory_id == ARTIFACTS:
            return f"{_RUN_STORE}{job.run}/outputs/batchai/artifacts"
        if directory_id in RUN_FOLDERS:
            return ""
        directories = {item.id: item for item in job.spec.output_directories or ()}
        if directory_id in directories:
            return output_uri(job, directories[directory_id])
        if directory_id == _DEFAULT_OUTPUT:
            return f"{_RUN_STORE}{job.run}"
        if directory_id in outputs:
            return str(outputs[directory_id].get("uri") or "")
        raise api_errors.output_directory_not_found(directory_id, [*directories, *outputs])


def output_uri(job: AzureJob, output: OutputDirectory) -> str:
    """The address of an output directory of one of our jobs; empty if it is not on a mount."""
    match = _MOUNTED.fullmatch(output.path_prefix.rstrip("/"))
    path = match["path"].strip("/") if match else ".."
    if ".." in path.split("/"):
        return ""
    outputs: Mapping[str, Any] = job.properties.get("outputs") or {}
    mounts: Mapping[str, str] = job.bundle.get("mounts") or {}
    for mount, name in (*mounts.items(), (job.bundle.get("share"), SHARE_OUTPUT)):
        if mount and name in outputs and f"{path}/".startswith(f"{mount}/"):
            uri, rest = str(outputs[name].get("uri")).rstrip("/"), path[len(mount) :].strip("/")
            prefix = f"{uri}/{rest}".rstrip("/")
            if name != SHARE_OUTPUT:
                return output.path_below(prefix, job.output_path_segment)
            return output.path_below(prefix, "") if output.is_own else ""
    return ""


def list_log_files(watched: WatchedLogs, path: str, limit: int | None) -> Sequence[OutputFile]:
    """One level of the directory, sorted by name; each file costs a request for its size.

    Raises:
        NotFoundError: There is no such folder.
    """
    names = list(watched.details().log_files)
    folder = path.strip("/")
    level = [*_children(names, f"{folder}/" if folder else "")]
    if not folder:
        logs = [*rank_logs(names), *other_logs(names)]
        level += map(OutputFile.regular, {path for log in logs for path in (log.path, log.tailed_path)})
    level.sort(key=lambda file: file.path)
    if folder and not level:
        raise NotFoundError(f"there is no folder {folder}", code="FileNotFound")
    return [_measured(watched, file) for file in level[:limit]]


def _children(names: Iterable[str], prefix: str) -> Iterator[OutputFile]:
    """The files and folders directly below a prefix."""
    folders = set()
    for name in names:
        first, _, rest = name.removeprefix(prefix).partition("/")
        if not name.startswith(prefix) or not first:
            continue
        if not rest:
            yield OutputFile.regular(name)
        elif first not in folders:
            folders.add(first)
            yield OutputFile(f"{prefix}{first}", FileKind.DIRECTORY, 0)


def _measured(watched: WatchedLogs, file: OutputFile) -> OutputFile:
    """A file with its size, time and address; a log composed of several files has no address."""
    if not file.is_file:
        return file
    names = watched.names_of(file.path)
    blobs = [blob for name in names if (blob := watched.blob(name))]
    urls = [watched.details().log_files[name] for name in names]
    return OutputFile(
        file.path,
        FileKind.FILE,
        sum(blob.size for blob in blobs),
        max((blob.modified for blob in blobs if blob.modified), default=None),
        urls[0] if len(urls) == 1 else None,
    )
