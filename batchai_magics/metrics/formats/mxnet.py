r"""MXNet's Speedometer and the lines at the end of an epoch.

'INFO:root:Epoch[0] Batch [20] Speed: 13681.57 samples/sec accuracy=0.001244'
'INFO:root:Epoch[0] Batch [0-20]\tSpeed: 13681.57 samples/sec\taccuracy=0.001244'           newer
'INFO:root:Epoch[0] Train-accuracy=0.92'
'INFO:root:Epoch[0] Validation-accuracy=0.95'
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from batchai_magics.metrics.formats.line_format import (
    COUNT,
    NUMBER,
    Field,
    Line,
    LineFormat,
    line_pattern,
    read_fields,
)
from batchai_magics.metrics.measurement import Record

_PAIR = re.compile(rb"([A-Za-z][\w./-]*)=(" + NUMBER + rb")")
_PAIRS = rb"(?P<pairs>(?:[ \t]+(?:Train-)?[A-Za-z][\w./-]*=" + NUMBER + rb")*)"
_EPOCH = rb"Epoch\[(?P<epoch>" + COUNT + rb")\][ \t]+"


def _read_speed(line: Line, row: LineFormat, match: re.Match[bytes]) -> Iterator[Record]:
    yield from read_fields(line, row, match)
    for name, number in _PAIR.findall(match["pairs"]):
        yield line.value(
            Field(name.decode().removeprefix("Train-")),
            number,
            step=int(match["step"]),
            epoch=int(match["epoch"]),
        )


def _read_epoch(line: Line, row: LineFormat, match: re.Match[bytes]) -> Iterator[Record]:
    before = {b"Train": "", b"Validation": "val_"}[match["phase"]]
    yield line.value(Field(before + match["metric"].decode()), match["value"], epoch=int(match["epoch"]))


MXNET = (
    LineFormat(
        name="MXNet speed",
        literals=(b" samples/sec",),
        pattern=line_pattern(
            _EPOCH
            + rb"Batch \[(?:\d+-)?(?P<step>"
            + COUNT
            + rb")\][ \t]+Speed: (?P<samples_per_sec>"
            + NUMBER
            + rb") samples/sec"
            + _PAIRS
        ),
        fields=(Field("samples_per_sec", "samples/sec"),),
        sample="INFO:root:Epoch[0] Batch [20]\tSpeed: 13681.57 samples/sec\taccuracy=0.001244",
        read=_read_speed,
    ),
    LineFormat(
        name="MXNet epoch",
        literals=(b"] Train-", b"] Validation-"),
        pattern=line_pattern(
            _EPOCH
            + rb"(?P<phase>Train|Validation)-(?P<metric>[A-Za-z][\w./-]{0,80})=(?P<value>"
            + NUMBER
            + rb")"
        ),
        fields=(),
        sample="INFO:root:Epoch[0] Validation-accuracy=0.953125",
        read=_read_epoch,
    ),
)
