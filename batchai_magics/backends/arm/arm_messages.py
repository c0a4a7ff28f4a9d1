"""Requests to Azure Resource Manager and its responses: paths, bodies, errors, resources. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

from batchai_magics.backends.base import Spec
from batchai_magics.backends.service import extension_wire
from batchai_magics.errors import (
    DISK_FULL,
    BatchAIError,
    ConflictError,
    NotFoundError,
    ServiceError,
    StorageError,
    UnreachableError,
)
from batchai_magics.models.file_server import FileServer
from batchai_magics.models.resource_ids import PROVIDER, Kind, ResourceId
from batchai_magics.models.resources import Cluster, Experiment, JobResource, Resource, Workspace

API_VERSION = "2018-05-01"
STORAGE_VERSION = "2023-05-01"


@dataclass(frozen=True)
class ArmRequest:
    """One request, without host and token."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] | None = field(default=None, repr=False)  # may hold secrets
    headers: Mapping[str, str] = field(default_factory=dict)
    version: str = API_VERSION
    content: bytes | None = field(default=None, repr=False)  # in place of `body`
    is_polled: bool = False  # the caller polls and repeats it anyway: no retries

    @property
    def params(self) -> dict[str, str]:
        """The query parameters, with the API version."""
        return {"api-version": self.version, **self.query}


def resource_path(id: ResourceId, action: str = "") -> str:
    """The path of a resource, or of an action on it."""
    path = quote(str(id), safe="/()")
    return f"{path}/{action}" if action else path


def provider_path(subscription: str, rest: str) -> str:
    """A path below the provider in a subscription."""
    return f"/subscriptions/{quote(subscription)}/providers/{PROVIDER}/{rest}"


def collection_path(parent: ResourceId, kind: Kind) -> str:
    """The path of the resources of a kind inside `parent`; for workspaces, those of its resource group."""
    if kind is Kind.WORKSPACE:
        group = f"/subscriptions/{quote(parent.subscription)}/resourceGroups/{quote(parent.group)}"
        return f"{group}/providers/{PROVIDER}/workspaces"
    return resource_path(parent, kind.value)


def request_body(spec: Spec) -> dict[str, Any]:
    """The JSON that creates a resource, secrets included."""
    return spec.to_wire(secrets=True)


def check_inside(path: str) -> None:
    """Raises StorageError for a path that leaves its folder."""
    if ".." in path.split("/"):
        raise StorageError(f"{path!r} is outside its folder", hint="Paths are relative and stay inside.")


_ERROR_TYPES: Mapping[int, type[ServiceError]] = {
    404: NotFoundError,
    409: ConflictError,
    413: StorageError,
    408: UnreachableError,
    429: UnreachableError,
    502: UnreachableError,
    503: UnreachableError,
    504: UnreachableError,
    507: StorageError,
}
_INVALID_NAME = "InvalidResourceName"
# Storage error codes, as the codes of the Backend protocol.
_CODES = {_INVALID_NAME: "", extension_wire.SHARE_FULL: DISK_FULL}
_MAX_LENGTH = 200  # of quoted text of the server
_TOKEN_HINT = "Is BATCHAI_TOKEN the token that `batchai serve` keeps, or one of `batchai serve user add`?"
_WRONG_HINT = "Is the endpoint right? `batchai serve` prints its own."


def parse_object(text: str, url: str) -> Mapping[str, Any]:
    """The JSON object of a successful response; an empty body is an empty object."""
    data = _parse_json(text)
    if text and not isinstance(data, Mapping):
        raise _wrong_endpoint(url, f"it answers {_shortened(text)}")
    return data if isinstance(data, Mapping) else {}


def arm_error(status: int, text: str, url: str) -> BatchAIError:
    """The error in a response of Azure Resource Manager."""
    data = _parse_json(text)
    error = data.get("error") if isinstance(data, Mapping) else None
    if not isinstance(error, Mapping):
        return _wrong_endpoint(url, f"it answers {status} {_shortened(text)}".rstrip())
    own = extension_wire.error_from_wire(error)
    return own if own is not None and status != 503 else _plain_error(status, error, url)


def _plain_error(status: int, error: Mapping[str, Any], url: str) -> ServiceError:
    kind, code = _ERROR_TYPES.get(status, ServiceError), str(error.get("code") or "")
    message = str(error.get("message") or f"{url} answered {status}")
    hint = _TOKEN_HINT if status == 401 else str(error.get(extension_wire.HINT) or "")
    return kind(message, code=code, hint=hint)


def storage_error(status: int, text: str, code: str) -> ServiceError:
    """The error in a storage response: in its XML body, or in the error code of its header alone."""
    told = {child.tag: child.text or "" for child in _parse_xml(text)}
    message = told.get("Message", "").partition("\nRequestId:")[0]
    data = {"code": told.get("Code", code), "message": message, **told}
    own = extension_wire.error_from_wire(data)
    if isinstance(own, ServiceError) and message:
        own.code = _CODES.get(own.code, own.code)
        return own
    if data["code"] == _INVALID_NAME:
        return StorageError("the path is outside its folder", hint="Paths are relative and stay inside.")
    kind = _ERROR_TYPES.get(status, ServiceError)
    return kind(
        message or f"the storage answered {status}",
        code=data["code"],
        hint=told.get(extension_wire.HINT, ""),
    )


def unreachable_error(url: str, reason: str) -> UnreachableError:
    """The error for a server that does not respond; `reason` is the message of the network library."""
    if "CERTIFICATE_VERIFY_FAILED" in reason or "SSLError" in reason or "certificate" in reason.lower():
        text = f"the certificate of {url} is not trusted here"
        hint = "Set arm.authority or REQUESTS_CA_BUNDLE to the file that `batchai serve --tls self` names."
        return UnreachableError(text, code="CertificateNotTrusted", hint=hint)
    if "WRONG_VERSION_NUMBER" in reason:
        text = f"{url} does not speak TLS"
        return UnreachableError(text, code="EndpointUnreachable", hint="Is it http://?")
    is_refused = "refused" in reason.lower()
    why = "nothing is listening there" if is_refused else _shortened(reason)
    hint = "Does the server run (`batchai serve`), and is the endpoint right?"
    return UnreachableError(f"{url} cannot be reached: {why}", code="EndpointUnreachable", hint=hint)


def no_credentials_error() -> ServiceError:
    """The error when there is neither a token nor any Azure credential."""
    hint = "Set BATCHAI_TOKEN for a server of your own; for Azure itself run `az login`."
    return ServiceError("there is no token, and no credentials of Azure", code="NoCredentials", hint=hint)


def _wrong_endpoint(url: str, what: str) -> ServiceError:
    text = f"{url} does not speak the protocol of Azure Resource Manager: {what}"
    return ServiceError(text, code="WrongEndpoint", hint=_WRONG_HINT)


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text.lstrip("\ufeff")) if text else None
    except ValueError:
        return None


def _parse_xml(text: str) -> ElementTree.Element:
    nothing = ElementTree.Element("Error")
    if "<!" in text:  # refuse DTDs and entities: error bodies have none
        return nothing
    try:
        return ElementTree.fromstring(text.lstrip("\ufeff").strip()) if text else nothing
    except ElementTree.ParseError:
        return nothing


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_LENGTH else f"{line[:_MAX_LENGTH]}…"


_PARSERS: Mapping[Kind, Callable[[Mapping[str, Any]], Resource]] = {
    Kind.WORKSPACE: Workspace.from_wire,
    Kind.EXPERIMENT: Experiment.from_wire,
    Kind.CLUSTER: Cluster.from_wire,
    Kind.JOB: JobResource.from_wire,
    Kind.FILE_SERVER: FileServer.from_wire,
}


def parse_resource(data: Mapping[str, Any], kind: Kind) -> Resource:
    """The resource in a JSON object."""
    return _PARSERS[kind](data)


def parse_any_resource(data: Mapping[str, Any]) -> Resource:
    """The resource in a JSON object, of the kind in its id."""
    return parse_resource(data, ResourceId.parse(str(data.get("id"))).kind)
