"""What the far side answers, understood: its errors become ours. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree

from batchai_magics.backends.service.extensions import error_wire
from batchai_magics.errors import (
    DISK_FULL,
    BatchAIError,
    ConflictError,
    NotFoundError,
    ServiceError,
    StorageError,
    UnreachableError,
)

_KINDS: Mapping[int, type[ServiceError]] = {
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
_ILL_NAMED = "InvalidResourceName"
# Of what storage says, how backends say it.
_AS_BACKENDS = {_ILL_NAMED: "", error_wire.SHARE_FULL: DISK_FULL}
_LONGEST = 200  # of what somebody else says
_TOKEN_HINT = "Is BATCHAI_TOKEN the token that `batchai serve` keeps, or one of `batchai serve user add`?"
_WRONG_HINT = "Is the endpoint right? `batchai serve` prints its own."


def object_of(text: str, url: str) -> Mapping[str, Any]:
    """The JSON object of a good answer; nothing at all is an empty one."""
    data = _parsed(text)
    if text and not isinstance(data, Mapping):
        raise _stranger(url, f"it answers {_short(text)}")
    return data if isinstance(data, Mapping) else {}


def refused(status: int, text: str, url: str) -> BatchAIError:
    """The error that an answer of Azure Resource Manager tells."""
    data = _parsed(text)
    error = data.get("error") if isinstance(data, Mapping) else None
    if not isinstance(error, Mapping):
        return _stranger(url, f"it answers {status} {_short(text)}".rstrip())
    own = error_wire.from_wire(error)
    return own if own is not None and status != 503 else _plain_error(status, error, url)


def _plain_error(status: int, error: Mapping[str, Any], url: str) -> ServiceError:
    kind, code = _KINDS.get(status, ServiceError), str(error.get("code") or "")
    message = str(error.get("message") or f"{url} answered {status}")
    hint = _TOKEN_HINT if status == 401 else str(error.get(error_wire.HINT) or "")
    return kind(message, code=code, hint=hint)


def storage_refused(status: int, text: str, code: str) -> ServiceError:
    """The error that an answer of storage tells, in XML, or in a header alone."""
    told = {child.tag: child.text or "" for child in _xml(text)}
    message = told.get("Message", "").partition("\nRequestId:")[0]
    data = {"code": told.get("Code", code), "message": message, **told}
    own = error_wire.from_wire(data)
    if isinstance(own, ServiceError) and message:
        own.code = _AS_BACKENDS.get(own.code, own.code)
        return own
    if data["code"] == _ILL_NAMED:
        return StorageError("the path leads out of its place", hint="Paths are relative and stay inside.")
    kind = _KINDS.get(status, ServiceError)
    return kind(
        message or f"the storage answered {status}", code=data["code"], hint=told.get(error_wire.HINT, "")
    )


def unreachable(url: str, reason: str) -> UnreachableError:
    """The error for a server that does not answer; `reason` is what the system said."""
    if "CERTIFICATE_VERIFY_FAILED" in reason or "SSLError" in reason or "certificate" in reason.lower():
        text = f"the certificate of {url} is not trusted here"
        hint = "Set arm.authority or REQUESTS_CA_BUNDLE to the file that `batchai serve --tls self` names."
        return UnreachableError(text, code="CertificateNotTrusted", hint=hint)
    if "WRONG_VERSION_NUMBER" in reason:
        text = f"{url} does not speak TLS"
        return UnreachableError(text, code="EndpointUnreachable", hint="Is it http://?")
    is_refused = "refused" in reason.lower()
    why = "nobody listens there" if is_refused else _short(reason)
    hint = "Does the server run (`batchai serve`), and is the endpoint right?"
    return UnreachableError(f"{url} cannot be reached: {why}", code="EndpointUnreachable", hint=hint)


def no_credentials() -> ServiceError:
    """The error for who has neither a token nor anything that Azure knows."""
    hint = "Set BATCHAI_TOKEN for a server of your own; for Azure itself run `az login`."
    return ServiceError("there is no token, and no credentials of Azure", code="NoCredentials", hint=hint)


def _stranger(url: str, what: str) -> ServiceError:
    text = f"{url} does not speak the protocol of Azure Resource Manager: {what}"
    return ServiceError(text, code="WrongEndpoint", hint=_WRONG_HINT)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text.lstrip("\ufeff")) if text else None
    except ValueError:
        return None


def _xml(text: str) -> ElementTree.Element:
    nothing = ElementTree.Element("Error")
    if "<!" in text:  # an error has no entities
        return nothing
    try:
        return ElementTree.fromstring(text.lstrip("\ufeff").strip()) if text else nothing
    except ElementTree.ParseError:
        return nothing


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
