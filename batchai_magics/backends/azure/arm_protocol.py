"""Requests to Azure Resource Manager, and errors in responses of it and of storage. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit
from xml.etree import ElementTree

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
    is_endless: bool = False  # the caller reads its response as a stream, and bounds each part

    @property
    def params(self) -> dict[str, str]:
        """The query parameters, with the API version unless that is empty."""
        return {**({"api-version": self.version} if self.version else {}), **self.query}


def link_query(link: object) -> dict[str, str]:
    """The query of a next link, whose host and path are not used: it may name any."""
    return dict(parse_qsl(urlsplit(str(link or "")).query))


def check_inside(path: str) -> None:
    """Raises StorageError for a path that leaves its folder, and for a text that is no path."""
    if ".." in path.split("/"):
        raise StorageError(f"{path!r} is outside its folder", hint="Paths are relative and stay inside.")
    if "\0" in path or any("\ud800" <= character <= "\udfff" for character in path):
        raise StorageError(f"{path!r} is not a path", hint="A path is text without the character NUL.")


_ERROR_TYPES: Mapping[int, type[ServiceError]] = {
    404: NotFoundError,
    409: ConflictError,
    **dict.fromkeys((413, 507), StorageError),
    **dict.fromkeys((408, 429, 500, 502, 503, 504), UnreachableError),
}
_INVALID_NAME = "InvalidResourceName"
# Storage error codes, as the codes of the Backend protocol.
_CODES = {_INVALID_NAME: "", extension_wire.SHARE_FULL: DISK_FULL}
_MAX_LENGTH = 200  # of quoted text of the server


@dataclass(frozen=True)
class Hints:
    """The hints of errors of one service: a refused token, another service at the address, no response, …."""

    token: str = "Is BATCHAI_TOKEN the token that `batchai serve` keeps, or one of `batchai serve user add`?"
    endpoint: str = "Is the endpoint right? `batchai serve` prints its own."
    unreachable: str = "Does the server run (`batchai serve`), and is the endpoint right?"
    certificate: str = (
        "Set arm.authority or REQUESTS_CA_BUNDLE to the file that `batchai serve --tls self` names."
    )
    credentials: str = "Set BATCHAI_TOKEN for a server of your own; for Azure itself run `az login`."


OWN_SERVER = Hints()
_REFUSED_SIGN_IN = "Correct AZURE_CLIENT_ID, AZURE_TENANT_ID and AZURE_CLIENT_SECRET, or run `az login`."
_FAILED_SIGN_IN = re.compile(r"(?:Authentication failed: |ERROR: |(?=AADSTS\d))(.+)")
_NETWORK_FAILURE = re.compile(r"connect|proxy|certificate|SSL|timed out|resolve", re.IGNORECASE)
_MISSING_BUNDLE = re.compile(r"TLS CA certificate bundle, invalid path: (.+?)[\"')]*$")


def parse_object(text: str, url: str, hints: Hints = OWN_SERVER) -> Mapping[str, Any]:
    """The JSON object of a successful response; an empty body is an empty object."""
    data = _parse_json(text)
    if text and not isinstance(data, Mapping):
        raise _wrong_endpoint(url, f"it answers {_shortened(text)}", hints)
    return data if isinstance(data, Mapping) else {}


def arm_error(status: int, text: str, url: str, hints: Hints = OWN_SERVER) -> BatchAIError:
    """The error in a response of Azure Resource Manager."""
    data = _parse_json(text)
    error = data.get("error") if isinstance(data, Mapping) else None
    if not isinstance(error, Mapping):
        return _wrong_endpoint(url, f"it answers {status} {_shortened(text)}".rstrip(), hints)
    own_error = extension_wire.error_from_wire(error)
    if own_error is not None and status != 503:
        return own_error
    kind, code = _ERROR_TYPES.get(status, ServiceError), str(error.get("code") or "")
    message = str(error.get("message") or f"{url} answered {status}")
    hint = hints.token if status == 401 else str(error.get(extension_wire.HINT) or "")
    return kind(message, code=code, hint=hint)


def storage_error(status: int, text: str, code: str) -> ServiceError:
    """The error in a storage response: in its XML body, or in the error code of its header alone."""
    elements = {child.tag: child.text or "" for child in _parse_xml(text)}
    message = elements.get("Message", "").partition("\nRequestId:")[0]
    data = {"code": elements.get("Code", code), "message": message, **elements}
    error = extension_wire.error_from_wire(data)
    if isinstance(error, ServiceError) and message:
        error.code = _CODES.get(error.code, error.code)
        return error
    if data["code"] == _INVALID_NAME:
        return StorageError("the path is outside its folder", hint="Paths are relative and stay inside.")
    kind = _ERROR_TYPES.get(status, ServiceError)
    return kind(
        message or f"the storage answered {status}",
        code=data["code"],
        hint=elements.get(extension_wire.HINT, ""),
    )


def unreachable_error(url: str, reason: str, hints: Hints = OWN_SERVER) -> UnreachableError:
    """The error for a server that does not respond; `reason` is the message of the network library."""
    if missing := _MISSING_BUNDLE.search(reason):
        text = f"{url} cannot be reached: there are no certificates in {missing[1]}"
        hint = "Correct or unset REQUESTS_CA_BUNDLE (or CURL_CA_BUNDLE), which names this file."
        return UnreachableError(text, code="CertificatesMissing", hint=hint)
    if "CERTIFICATE_VERIFY_FAILED" in reason or "SSLError" in reason or "certificate" in reason.lower():
        text = f"the certificate of {url} is not trusted here"
        return UnreachableError(text, code="CertificateNotTrusted", hint=hints.certificate)
    if "WRONG_VERSION_NUMBER" in reason:
        text = f"{url} does not speak TLS"
        return UnreachableError(text, code="EndpointUnreachable", hint="Is it http://?")
    why = "nothing is listening there" if "refused" in reason.lower() else _shortened(reason)
    if "proxy" in reason.lower():
        text = f"{url} cannot be reached through the proxy: {why}"
        return UnreachableError(text, code="ProxyUnreachable", hint="Correct or unset HTTPS_PROXY.")
    text = f"{url} cannot be reached: {why}"
    return UnreachableError(text, code="EndpointUnreachable", hint=hints.unreachable)


def sign_in_failure(message: str) -> str:
    """Why a credential was refused, from the messages of Azure's libraries; else empty."""
    match = _FAILED_SIGN_IN.search(message)
    return match[1].strip() if match else ""


def sign_in_error(message: str, hints: Hints = OWN_SERVER) -> ServiceError:
    """The error of a sign-in: why it failed, or that there is neither a token nor any Azure credential."""
    reason = sign_in_failure(message)
    if not reason:
        text = "there is no token, and no credentials of Azure"
        return ServiceError(text, code="NoCredentials", hint=hints.credentials)
    if _NETWORK_FAILURE.search(reason):
        return unreachable_error("Azure's sign-in", reason, hints)
    text = f"Azure refuses the sign-in: {_shortened(reason)}"
    return ServiceError(text, code="SignInRefused", hint=_REFUSED_SIGN_IN)


def _wrong_endpoint(url: str, response: str, hints: Hints) -> ServiceError:
    text = f"{url} does not speak the protocol of Azure Resource Manager: {response}"
    return ServiceError(text, code="WrongEndpoint", hint=hints.endpoint)


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
