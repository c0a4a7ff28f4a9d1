"""Parameters of a run that NVIDIA's DLLogger prints.

'DLLL {"type": "LOG", "step": "PARAMETER", "data": {"batch_size": 64}}'
'DLL 2020-11-09 09:33:02.123456 - PARAMETER batch_size_per_gpu : 64'
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from batchai_magics.metrics.formats.line_format import (
    Line,
    LineFormat,
    line_pattern,
    parameters,
    read_named_parameter,
)
from batchai_magics.metrics.measurement import Record


def parse_object(text: bytes) -> Mapping[str, Any]:
    """The JSON object in a text; empty without one."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _read_parameters(line: Line, row: LineFormat, match: re.Match[bytes]) -> Iterator[Record]:
    data = parse_object(match["object"]).get("data")
    if isinstance(data, dict):
        yield from parameters(line, data.items())


DLLOGGER = (
    LineFormat(
        name="DLLogger JSON",
        literals=(b'"PARAMETER"',),
        pattern=line_pattern(rb'DLLL (?P<object>\{.*"step": ?"PARAMETER".*\})'),
        fields=(),
        sample='DLLL {"type": "LOG", "step": "PARAMETER", "data": {"model": "bert"}}',
        read=_read_parameters,
        is_self_terminating=True,
    ),
    LineFormat(
        name="DLLogger parameter",
        literals=(b" - PARAMETER ",),
        pattern=line_pattern(
            rb"DLLL? \d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? - "
            rb"PARAMETER (?P<name>\w{1,80}) : (?P<value>\S{1,80})"
        ),
        fields=(),
        sample="DLL 2020-11-09 09:33:02.123456 - PARAMETER batch_size_per_gpu : 64",
        read=read_named_parameter,
    ),
)
