"""The blobs of a workspace's datastores: lists of folders, ranges of files, signed addresses."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from urllib.parse import quote, urlencode
from xml.etree import ElementTree

from batchai_magics.backends.azureml.connection import BlobRange, Connection
from batchai_magics.errors import NotFoundError, ServiceError

_URI = re.compile(r"azureml://(?:.*/)?datastores/(?P<name>[^/]+)/paths/(?P<path>.*)")
_SAS_VERSION = "2021-12-02"
_ACCESS_S = 3000.0  # how long an access is used; signatures are valid for an hour
_UNSIGNED = ("snapshot", "ses", "rscc", "rscd", "rsce", "rscl", "rsct")


@dataclass(frozen=True)
class BlobAccess:
    """What a request to a container is authorized with: a signature, or a header with a token."""

    query: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class BlobFolder:
    """A folder of a blob datastore.

    Attributes:
        datastore: The name of the datastore.
        url: The address of its container.
        path: The folder's path in the container, without slashes at its ends.
    """

    datastore: str
    url: str
    path: str

    def name_of(self, path: str) -> str:
        """The name of the blob at a path below the folder."""
        return "/".join(part for part in (self.path, path.strip("/")) if part)


@dataclass(frozen=True)
class BlobEntry:
    """A file or folder directly below a folder; `path` is relative to the listed `BlobFolder`."""

    path: str
    is_folder: bool
    size_bytes: int = 0
    modified: datetime | None = None


class Datastores:
    """The datastores of a workspace. Identity-based ones are read with the user's own token."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._containers: dict[str, str] = {}
        self._access: dict[str, tuple[float, BlobAccess]] = {}

    def folder(self, uri: str) -> BlobFolder | None:
        """The folder of an address such as `azureml://datastores/NAME/paths/P`; None if it is no blob's."""
        match = _URI.fullmatch(uri)
        url = self._container(match["name"]) if match else ""
        return BlobFolder(match["name"], url, match["path"].strip("/")) if match and url else None

    def entries(self, folder: BlobFolder, path: str = "") -> Iterator[BlobEntry]:
        """The files and folders directly below a path, in the service's order."""
        name = folder.name_of(path)
        prefix, marker = f"{name}/" if name else "", ""
        while True:
            access = self._access_to(folder)
            query = {"restype": "container", "comp": "list", "delimiter": "/", "prefix": prefix}
            more = {"marker": marker} if marker else {}
            url = f"{folder.url}?{urlencode({**query, **more})}&{access.query}".rstrip("&")
            page = ElementTree.fromstring(self._connection.read_text(url, access.headers))
            for found in page.findall("Blobs/*"):
                path = (found.findtext("Name") or "").removeprefix(f"{folder.path}/" if folder.path else "")
                if found.tag == "BlobPrefix":
                    yield BlobEntry(path.rstrip("/"), is_folder=True)
                elif path and not path.endswith("/"):
                    modified = found.findtext("Properties/Last-Modified")
                    size = int(found.findtext("Properties/Content-Length") or 0)
                    yield BlobEntry(path, False, size, parsedate_to_datetime(modified) if modified else None)
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
        if name not in self._containers:
            data = self._connection.request_json(self._connection.request("GET", f"datastores/{name}"))
            store = data.get("properties") or {}
            host = f"{store.get('accountName')}.blob.{store.get('endpoint') or 'core.windows.net'}"
            is_blob = store.get("datastoreType") == "AzureBlob"
            self._containers[name] = f"https://{host}/{store.get('containerName')}" if is_blob else ""
        return self._containers[name]

    def _access_to(self, folder: BlobFolder) -> BlobAccess:
        with self._lock:
            until, access = self._access.get(folder.datastore, (0.0, BlobAccess()))
            if time.monotonic() >= until:
                access = self._read_access(folder)
                self._access[folder.datastore] = time.monotonic() + _ACCESS_S, access
            return access

    def _read_access(self, folder: BlobFolder) -> BlobAccess:
        """By the datastore's key or signature; the user's own token where it has neither."""
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
