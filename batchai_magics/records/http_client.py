"""One HTTP request with the standard library; follows no redirects, which could carry secrets elsewhere."""

from __future__ import annotations

import io
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

_MOST_OF_ERROR = 1 << 16  # bytes


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
    try:
        with urllib.request.build_opener(_NoRedirects()).open(request, timeout=timeout_s) as response:
            body: bytes = response.read()
            return body
    except urllib.error.HTTPError as error:
        with error:  # which holds the connection
            start = io.BytesIO(error.read(_MOST_OF_ERROR))
        raise urllib.error.HTTPError(url, error.code, error.reason, error.headers, start) from None
