"""One HTTP request with the standard library; follows no redirects, which could carry secrets elsewhere."""

from __future__ import annotations

import urllib.request
from collections.abc import Mapping
from typing import Any


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Makes a redirect an error."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Follows none."""


def send(url: str, data: bytes | None, headers: Mapping[str, str], *, timeout_s: float) -> bytes:
    """The body of the response to a POST, or without data a GET.

    Raises:
        urllib.error.HTTPError: The response is an error or a redirect.
        OSError: There was none.
    """
    request = urllib.request.Request(url, data, dict(headers))
    with urllib.request.build_opener(_NoRedirects()).open(request, timeout=timeout_s) as response:
        body: bytes = response.read()
        return body
