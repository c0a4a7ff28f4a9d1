"""Where `az` fetches its token: an endpoint as machines of Azure have one, with the token in its own path.

It gives back what the address says and knows nothing itself, so that it lets nobody in.
"""

from __future__ import annotations

import re
import time

from batchai_magics.server.call import Answer

_PATH = re.compile(r"/msi/(?P<token>[\w.~-]{1,512})/token/?")
_LIFE_S = 24 * 3600


def managed_identity(path: str) -> Answer:
    """The token in the path, as a client of a managed identity reads it."""
    match = _PATH.fullmatch(path)
    if not match:
        message = "The path must be /msi/TOKEN/token."
        return Answer(404, {"error": {"code": "NotFound", "message": message}})
    data = {
        "access_token": match["token"],
        "token_type": "Bearer",
        "resource": "batchai",
        "expires_in": str(_LIFE_S),
        "expires_on": str(int(time.time()) + _LIFE_S),
    }
    return Answer(data=data)
