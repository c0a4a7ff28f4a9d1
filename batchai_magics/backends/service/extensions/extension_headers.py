"""Headers of our own client's requests, and of the answers to them."""

from __future__ import annotations

import enum

# Of a request that waits for news: what its sender knows; of the answer: what to say the next time.
SINCE, STATE = "x-batchai-since", "x-batchai-state"

# RFC 7240: so many seconds for news, and what was made in place of a long-running operation.
PREFER = "Prefer"
AS_MADE = "return=representation"

# Of all requests of our own client. It is told what the published API has no words for; of storage,
# everything is listed, and deleted with all in it.
OWN_CLIENT = "x-batchai-client"
SERVICE = "x-batchai-service"  # `blob`: containers, as if they were shares
WANT_DIGEST = "x-batchai-want-digest"
DIGEST = "x-batchai-sha256"  # of a file, where it was wanted

# A file in pieces: nobody sees one before it is whole, and what was interrupted goes on where it stood.
UPLOAD = "x-batchai-upload"
RECEIVED = "x-batchai-received"  # how many bytes are there already


class UploadStep(enum.Enum):
    """What a request that has the header UPLOAD does."""

    BEGIN = "begin"  # with the whole file's size
    WRITE = "write"  # with the bytes from an offset on
    FINISH = "finish"  # with the digest of all
    WHOLE = "whole"  # all of it at once, with its digest


def waiting(seconds: float) -> str:
    """The preference of a request that may wait so long for news."""
    return f"wait={max(1, round(seconds))}"
