"""The variables in which a job carries its description and the bundle of its nodes, as packed JSON."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Any

SPEC = "BATCHAI_SPEC"  # the description, without secrets
RUN = "BATCHAI_RUN"  # the plans and records


def packed(value: Mapping[str, Any]) -> str:
    """JSON as the text of a variable."""
    text = json.dumps(value, separators=(",", ":"), sort_keys=True)
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def unpacked(text: str) -> Mapping[str, Any]:
    """The JSON value that `packed` has encoded."""
    value: Mapping[str, Any] = json.loads(zlib.decompress(base64.b64decode(text)))
    return value
