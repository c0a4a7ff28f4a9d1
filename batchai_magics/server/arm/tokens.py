"""Where `az` fetches its token: an endpoint as machines of Azure have one.

Versions of `az` until 2023 have the token in the path (`MSI_ENDPOINT`), later ones send it in a header
(`IDENTITY_ENDPOINT` and `IDENTITY_HEADER`). It gives back what it is told and knows nothing itself, so
that it lets nobody in.
"""

from __future__ import annotations

import re
import time

from batchai_magics.server.call import Answer

_PATH = re.compile(r"/msi/(?:(?P<token>[\w.~-]{1,512})/)?token/?")
_TOKEN = re.compile(r"[\w.~-]{1,512}", re.ASCII)
_LIFE_S = 24 * 3600


def managed_identity(path: str, header: str = "") -> Answer:
    """The token in the path or the header, as a client of a managed identity reads it."""
    match = _PATH.fullmatch(path)
    token = (match["token"] or header) if match else ""
    if not _TOKEN.fullmatch(token):
        message = "The path must be /msi/TOKEN/token, or /msi/token with a header X-IDENTITY-HEADER."
        return Answer(404, {"error": {"code": "NotFound", "message": message}})
    data = {
        "access_token": token,
        "token_type": "Bearer",
        "resource": "batchai",
        "expires_in": str(_LIFE_S),
        "expires_on": str(int(time.time()) + _LIFE_S),
    }
    return Answer(data=data)
