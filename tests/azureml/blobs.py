"""Blob storage: block and append blobs in containers, opened by a key, a token or a signature (SAS)."""

from __future__ import annotations

import base64
import datetime
import hashlib
import hmac
import itertools
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from urllib.parse import quote, urlencode
from xml.sax.saxutils import escape

from tests.azureml.http_messages import RefusedError, Request, Response
from tests.azureml.sign_in import STORAGE, SignIn

ACCOUNT = "standin"
HOST = f"{ACCOUNT}.blob.core.windows.net"
KEY = base64.b64encode(hashlib.sha512(b"the key of the stand-in's account").digest()).decode()
PAGE = 5000
_SIGNED = "sp st se {resource} si sip spr sv sr snapshot ses rscc rscd rsce rscl rsct"


@dataclass
class Blob:
    """The bytes of a blob, and what is known of it."""

    data: bytearray = field(default_factory=bytearray)
    kind: str = "BlockBlob"
    metadata: dict[str, str] = field(default_factory=dict)
    etag: int = 0
    modified: str = ""

    def headers(self) -> dict[str, str]:
        own = {"x-ms-blob-type": self.kind, "ETag": f'"0x{self.etag:X}"', "Last-Modified": self.modified}
        return {"Content-Type": "application/octet-stream", "Accept-Ranges": "bytes", **own, **self.metadata}


class Blobs:
    """The blobs of one account, by container and name."""

    def __init__(self, sign_in: SignIn) -> None:
        self.allows_keys = True
        self.page = PAGE
        self._sign_in = sign_in
        self._blobs: dict[tuple[str, str], Blob] = {}
        self._etags = itertools.count(1)
        self._lock = threading.RLock()

    # what the service itself does

    def write(self, container: str, name: str, data: bytes, kind: str = "BlockBlob") -> None:
        """Makes a blob, or replaces it."""
        with self._lock:
            self._blobs[container, name] = self._touched(Blob(bytearray(data), kind))

    def append(self, container: str, name: str, data: bytes) -> None:
        """Appends to an append blob, which is made where there is none."""
        with self._lock:
            blob = self._blobs.setdefault((container, name), Blob(kind="AppendBlob"))
            blob.data += data
            self._touched(blob)

    def read(self, container: str, name: str) -> bytes:
        with self._lock:
            return bytes(self._blobs[container, name].data)

    def names(self, container: str, prefix: str = "") -> list[str]:
        with self._lock:
            return sorted(name for own, name in self._blobs if own == container and name.startswith(prefix))

    def remove(self, container: str, prefix: str) -> None:
        with self._lock:
            for name in self.names(container, prefix):
                del self._blobs[container, name]

    def url(self, container: str, name: str = "", *, permissions: str = "r", life_s: float = 3600.0) -> str:
        """An address with a signature that expires."""
        end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=life_s)
        query = {"sv": "2021-12-02", "sr": "b" if name else "c", "sp": permissions}
        query["se"] = end.strftime("%Y-%m-%dT%H:%M:%SZ")
        query["sig"] = _signature(query, container, name)
        path = f"/{container}/{quote(name)}" if name else f"/{container}"
        return f"https://{HOST}{path}?{urlencode(query)}"

    def _touched(self, blob: Blob) -> Blob:
        blob.etag, blob.modified = next(self._etags), formatdate(usegmt=True)
        return blob

    # what clients ask for

    def answer(self, request: Request) -> Response:
        """The response to a request of the account's host."""
        container, _, name = request.path.strip("/").partition("/")
        try:
            self._check(request, container, name)
            with self._lock:
                return self._operation(request, name)(request, container, name)
        except RefusedError as refused:
            return refused.as_xml()

    def _operation(self, request: Request, name: str) -> Callable[[Request, str, str], Response]:
        method, comp = request.method, request.query.get("comp", "")
        found = {
            ("PUT", ""): self._put,
            ("PUT", "metadata"): self._put_metadata,
            ("GET", ""): self._get,
            ("HEAD", ""): self._head,
            ("GET", "list"): self._list,
        }.get((method, comp))
        if found is None:
            raise RefusedError(400, "UnsupportedHttpVerb", f"{method} {comp}")
        return found

    def _check(self, request: Request, container: str, name: str) -> None:
        kind = request.headers.get("Authorization", "").partition(" ")[0]
        if "sig" in request.query:
            _check_signature(request, container, name)
        elif kind == "Bearer":
            self._sign_in.check(request, STORAGE)
        elif kind != "SharedKey":
            raise RefusedError(404, "ResourceNotFound", "The specified resource does not exist.")
        elif not self.allows_keys:
            raise RefusedError(403, "KeyBasedAuthenticationNotPermitted", "Keys are not permitted here.")

    def _found(self, container: str, name: str) -> Blob:
        if (container, name) not in self._blobs:
            raise RefusedError(404, "BlobNotFound", "The specified blob does not exist.")
        return self._blobs[container, name]

    def _head(self, request: Request, container: str, name: str) -> Response:
        blob = self._found(container, name)
        return Response(200, headers={**blob.headers(), "Content-Length": str(len(blob.data))})

    def _get(self, request: Request, container: str, name: str) -> Response:
        blob = self._found(container, name)
        wanted, size = request.headers.get("x-ms-range") or request.headers.get("Range"), len(blob.data)
        if not wanted:
            return Response(200, bytes(blob.data), blob.headers())
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", wanted)
        start = int(found[1]) if found else size
        if start >= size:
            message = "The range specified is invalid for the current size of the resource."
            raise RefusedError(416, "InvalidRange", message, Content_Range=f"bytes */{size}")
        part = bytes(blob.data[start : int(found[2]) + 1 if found and found[2] else size])
        place = {"Content-Range": f"bytes {start}-{start + len(part) - 1}/{size}"}
        return Response(206, part, {**blob.headers(), **place})

    def _put(self, request: Request, container: str, name: str) -> Response:
        kind = request.headers.get("x-ms-blob-type", "")
        if kind not in ("BlockBlob", "AppendBlob"):
            raise RefusedError(400, "MissingRequiredHeader", "x-ms-blob-type is missing.")
        if request.headers.get("If-None-Match") == "*" and (container, name) in self._blobs:
            raise RefusedError(409, "BlobAlreadyExists", "The specified blob already exists.")
        blob = Blob(bytearray(request.body), kind, _metadata(request))
        self._blobs[container, name] = self._touched(blob)
        return Response(201, headers=blob.headers())

    def _put_metadata(self, request: Request, container: str, name: str) -> Response:
        blob = self._touched(self._found(container, name))
        blob.metadata = _metadata(request)
        return Response(200, headers=blob.headers())

    def _list(self, request: Request, container: str, name: str) -> Response:
        prefix, delimiter = request.query.get("prefix", ""), request.query.get("delimiter", "")
        names = [own for own in self.names(container, prefix) if own > request.query.get("marker", "")]
        size = min(int(request.query.get("maxresults", self.page)), self.page)
        marker = names[size - 1] if len(names) > size else ""
        items: dict[str, str] = {}
        for own in names[:size]:
            head, found, _ = own[len(prefix) :].partition(delimiter) if delimiter else ("", "", "")
            folder = f"<BlobPrefix><Name>{escape(prefix + head + found)}</Name></BlobPrefix>" if found else ""
            items[folder or own] = folder or self._item(container, own)
        text = "".join(items.values())
        end = f"<NextMarker>{escape(marker)}</NextMarker>" if marker else "<NextMarker/>"
        place = f'ServiceEndpoint="https://{HOST}/" ContainerName="{container}"'
        head = f"<Prefix>{escape(prefix)}</Prefix>"
        xml = f'<?xml version="1.0" encoding="utf-8"?><EnumerationResults {place}>{head}'
        body = f"{xml}<Blobs>{text}</Blobs>{end}</EnumerationResults>".encode()
        return Response(200, body, {"Content-Type": "application/xml"})

    def _item(self, container: str, name: str) -> str:
        blob = self._blobs[container, name]
        size = f"<Content-Length>{len(blob.data)}</Content-Length>"
        times = f"<Last-Modified>{blob.modified}</Last-Modified><Etag>0x{blob.etag:X}</Etag>"
        known = f"{times}{size}<BlobType>{blob.kind}</BlobType>"
        return f"<Blob><Name>{escape(name)}</Name><Properties>{known}</Properties></Blob>"


def _metadata(request: Request) -> dict[str, str]:
    return {name: text for name, text in request.headers.items() if name.lower().startswith("x-ms-meta-")}


def _check_signature(request: Request, container: str, name: str) -> None:
    """Refuses a signature that is not the account's, has expired, or is of something else."""
    query = request.query
    own = _signature(query, container, name if query.get("sr") == "b" else "")
    if not hmac.compare_digest(own, query["sig"]):
        raise RefusedError(403, "AuthenticationFailed", "Signature did not match.")
    end = datetime.datetime.strptime(query["se"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=datetime.timezone.utc)
    if end <= datetime.datetime.now(datetime.timezone.utc):
        raise RefusedError(403, "AuthenticationFailed", "Signature not valid in the specified time frame.")
    needed = {"GET": "l" if "list" in query.values() else "r", "HEAD": "r", "DELETE": "d"}
    permitted = set(query.get("sp", ""))
    if not permitted & set(needed.get(request.method, "wca")):
        raise RefusedError(403, "AuthorizationPermissionMismatch", "The signature does not permit this.")


def _signature(query: Mapping[str, str], container: str, name: str) -> str:
    """What the account's key makes of a query, as documented for versions from 2020-12-06."""
    resource = f"/blob/{ACCOUNT}/{container}" + (f"/{name}" if name else "")
    texts = [resource if word == "{resource}" else query.get(word, "") for word in _SIGNED.split()]
    mark = hmac.new(base64.b64decode(KEY), "\n".join(texts).encode(), hashlib.sha256).digest()
    return base64.b64encode(mark).decode()
