"""The api-version that every request says; that of Batch AI is the one that was published last."""

from __future__ import annotations

import re

from batchai_magics.server.batchai.links import API_VERSION
from batchai_magics.server.call import Answer, Call
from batchai_magics.server.errors import refusal
from batchai_magics.server.service import Handler, Route, Service

_DATED = re.compile(r"\d{4}-\d\d-\d\d(-[a-z]+)?", re.IGNORECASE)


def versioned(route: Route, handler: Handler) -> Handler:
    """The handler, for requests with a version that the route has."""
    is_batchai = "/Microsoft.BatchAI/" in route.path

    def handle(service: Service, call: Call) -> Answer:
        version = call.query.get("api-version", "")
        if not version:
            message = "The api-version query parameter (?api-version=) is required for all requests."
            raise refusal(400, "MissingApiVersionParameter", message)
        if is_batchai and version != API_VERSION:
            raise _no_provider(service, call, version)
        if not _DATED.fullmatch(version):
            raise refusal(400, "InvalidApiVersionParameter", f"The api-version '{version}' is invalid.")
        return handler(service, call)

    return handle


def _no_provider(service: Service, call: Call, version: str) -> Exception:
    kinds = call.path.lower().rpartition("/microsoft.batchai/")[2].split("/")[::2]
    text = (
        f"No registered resource provider found for location '{service.location}' and API version '{version}'"
        f" for type '{'/'.join(kinds)}'. The supported api-versions are '{API_VERSION}'."
    )
    return refusal(400, "NoRegisteredProviderFound", text)
