"""One HTTP request with the standard library; follows no redirects, which could carry secrets elsewhere."""

from __future__ import annotations

import io
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any

MAX_BYTES = 16 << 20  # of a response
TOTAL_TIMEOUTS = 2  # the limit of the whole exchange, as a multiple of the timeout
_MOST_OF_ERROR = 1 << 16  # bytes


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Makes a redirect an error."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Follows none."""


def send(url: str, data: bytes | None, headers: Mapping[str, str], *, timeout_s: float) -> bytes:
    """The body of the response to a POST, or without data a GET; at most `MAX_BYTES` of it.

    Raises:
        urllib.error.HTTPError: The response is an error or a redirect.
        OSError: There was none, or it took too long.
    """
    future: Future[bytes] = Future()

    def exchange() -> None:
        try:
            future.set_result(_exchange(url, data, headers, timeout_s))
        except BaseException as error:  # noqa: BLE001 raised in the waiting thread
            future.set_exception(error)

    threading.Thread(target=exchange, daemon=True).start()  # a slow response cannot be interrupted
    try:
        return future.result(timeout_s * TOTAL_TIMEOUTS)
    except FutureTimeoutError:
        raise TimeoutError("the response was not complete in time") from None


def _exchange(url: str, data: bytes | None, headers: Mapping[str, str], timeout_s: float) -> bytes:
    request = urllib.request.Request(url, data, dict(headers))
    try:
        with urllib.request.build_opener(_NoRedirects()).open(request, timeout=timeout_s) as response:
            body: bytes = response.read(MAX_BYTES)
            return body
    except urllib.error.HTTPError as error:
        with error:  # which holds the connection
            start = io.BytesIO(error.read(_MOST_OF_ERROR))
        raise urllib.error.HTTPError(url, error.code, error.reason, error.headers, start) from None
