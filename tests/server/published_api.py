"""Whether answers are what the description of the published operations says, for tests that run a server."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from batchai_magics.backends.service.extension_wire import OWN_CLIENT
from batchai_magics.server.http.response_encoder import openapi_document

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

METHODS = ("get", "put", "post", "patch", "delete")
_ROOT = "urn:published"


class Watched:
    """An ASGI application whose answers are looked at as they go out; `deviations` says what was wrong."""

    def __init__(self, app: Callable[..., Any]) -> None:
        self._app = app
        self.deviations: list[str] = []
        self.seen: set[str] = set()

    async def __call__(self, scope: Mapping[str, Any], receive: object, send: Callable[..., Any]) -> None:
        """Answers one request."""
        operation = operation_at(scope.get("method", ""), scope.get("path", ""))
        if operation is None or _is_of_our_own(scope):
            await self._app(scope, receive, send)
            return
        status, body = 0, bytearray()

        async def sent(message: Mapping[str, Any]) -> None:
            nonlocal status
            status = message.get("status", status)
            body.extend(message.get("body", b""))
            await send(message)

        await self._app(scope, receive, sent)
        if not status:  # the client has gone
            return
        self.seen.add(f"{operation['operationId']} {status}")
        where = f"{scope['method']} {scope['path']} {status}"
        self.deviations += [f"{where}: {line}" for line in deviations(operation, status, bytes(body))]


def _is_of_our_own(scope: Mapping[str, Any]) -> bool:
    """Whether our own client asks for more than was published."""
    return OWN_CLIENT.encode() in dict(scope["headers"]) or b"batchai" in scope["query_string"]


def operation_at(method: str, path: str) -> Mapping[str, Any] | None:
    """The published operation that a request asks for."""
    found = next((item for pattern, item in _paths() if pattern.fullmatch(path)), {})
    return found.get(method.lower())


def deviations(operation: Mapping[str, Any], status: int, body: bytes) -> list[str]:
    """What of an answer is not as the description says."""
    answers = operation["responses"]
    if status < 400 and str(status) not in answers:
        return ["the operation has no such status"]
    answer = answers.get(str(status), answers["default"])
    content = _resolved(answer).get("content")
    if content is None:
        return ["the operation has no such body"] if body else []
    if status >= 500 and status != 503:  # there are too many at once
        return ["an error of the server's own"]
    validator, data = _validator_of(content["application/json"]["schema"]["$ref"]), json.loads(body)
    own = [f"{path}: no key of the published API" for path in own_keys(data)]
    return [*own, *(f"{error.json_path}: {error.message}" for error in validator.iter_errors(data))]


def own_keys(data: Any, path: str = "$") -> list[str]:
    """Where an answer has keys that only our own client asks for; keys of tags are their users'."""
    if isinstance(data, list):
        return [found for item in data for found in own_keys(item, f"{path}[]")]
    if not isinstance(data, dict):
        return []
    here = [f"{path}.{key}" for key in data if key.startswith("batchai")]
    inside = [own_keys(value, f"{path}.{key}") for key, value in data.items() if key != "tags"]
    return [*here, *(found for each in inside for found in each)]


@cache
def _paths() -> list[tuple[re.Pattern[str], Mapping[str, Any]]]:
    """The paths of the description; what has more fixed words stands before what has less."""
    made = [
        (re.compile(re.sub(r"\{\w+\}", "[^/]+", path), re.IGNORECASE), item)
        for path, item in openapi_document()["paths"].items()
    ]
    return sorted(made, key=lambda pair: pair[0].pattern.count("[^/]+"))


def _resolved(part: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Any = part
    if "$ref" in part:
        found = openapi_document()
        for word in part["$ref"].removeprefix("#/").split("/"):
            found = found[word]
    return found


@cache
def _validator_of(reference: str) -> Draft202012Validator:
    from jsonschema import Draft202012Validator  # two seconds, which most tests do without
    from referencing import Registry, Resource
    from referencing.jsonschema import DRAFT202012

    document = Resource.from_contents(openapi_document(), default_specification=DRAFT202012)
    registry = Registry().with_resource(_ROOT, document)
    return Draft202012Validator({"$ref": _ROOT + reference}, registry=registry)
