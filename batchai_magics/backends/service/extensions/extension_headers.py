"""Headers of our own client's requests and of the responses to them."""

from __future__ import annotations

import enum

# Long polling: in a request, the state that its sender knows; in the response, the next one to send.
SINCE, STATE = "x-batchai-since", "x-batchai-state"

# RFC 7240: how long to wait for changes; and the created resource in place of a long-running operation.
PREFER = "Prefer"
REPRESENTATION = "return=representation"

# Sent with all requests of our own client. Responses may exceed the published API; lists of storage are
# complete, and deletion is recursive.
OWN_CLIENT = "x-batchai-client"
SERVICE = "x-batchai-service"  # `blob`: operate on containers as if they were shares
WANT_DIGEST = "x-batchai-want-digest"
DIGEST = "x-batchai-sha256"  # of a file, if requested

# Chunked uploads: files are published when they are complete; interrupted uploads are resumed.
UPLOAD = "x-batchai-upload"
RECEIVED = "x-batchai-received"  # how many bytes the server has


class UploadStep(enum.Enum):
    """The operation of a request with the header UPLOAD."""

    BEGIN = "begin"  # with the size of the file
    WRITE = "write"  # with the bytes from an offset on
    FINISH = "finish"  # with the digest of the file
    WHOLE = "whole"  # a complete file with its digest


def prefer_wait(seconds: float) -> str:
    """The Prefer header of a long-polling request."""
    return f"wait={max(1, round(seconds))}"
