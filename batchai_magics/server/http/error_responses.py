"""Errors become responses: the middleware of the API, and what a defect is called."""

from __future__ import annotations

import logging
import traceback
import uuid

from starlette.types import ASGIApp, Receive, Scope, Send

from batchai_magics.errors import BatchAIError, is_disk_full
from batchai_magics.server.api_call import ApiResponse
from batchai_magics.server.api_errors import INTERNAL_ERROR, ApiError, disk_full_error, error_body, status_of
from batchai_magics.server.http.request_checks import raw_path
from batchai_magics.server.http.response_encoder import send_response

LOG = logging.getLogger("batchai.server")


class ApiErrors:
    """Middleware: sends an error response for an exception of an inner application."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        try:
            await self._app(scope, receive, send)
        except BatchAIError as error:
            await send_response(send, error_response(error))
        except Exception as error:  # noqa: BLE001  a bug: logged under a number that the client gets
            await send_response(send, error_response(to_api_error(scope, error)))


def error_response(error: BatchAIError) -> ApiResponse:
    """The response for an error."""
    status = status_of(error)
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    return ApiResponse(status, error_body(error), {**headers, **_retry_after(status)})


def to_api_error(scope: Scope, error: Exception) -> BatchAIError:
    """The error to send for a foreign exception; unexpected ones are logged under a number."""
    if isinstance(error, OSError) and is_disk_full(error):
        return disk_full_error()
    number = uuid.uuid4().hex[:12]
    LOG.error("defect %s at %s %s\n%s", number, scope["method"], raw_path(scope), traceback.format_exc())
    message = f"The server could not do this. Its log says why, under {number}."
    return ApiError(500, INTERNAL_ERROR, message)


def _retry_after(status: int) -> dict[str, str]:
    return {"Retry-After": "1"} if status == 503 else {}
