r"""The line that a backend writes into a log when it begins a job once more: what follows is another run.

'[batchai] attempt %d begins on %s: %s'
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from batchai_magics.metrics.formats.row import COUNT, Line, LineFormat, line_pattern
from batchai_magics.metrics.record import ATTEMPT, HeaderRecord, Record


def _read(line: Line, row: LineFormat, match: re.Match[bytes]) -> Iterator[Record]:
    yield HeaderRecord(ATTEMPT, match["attempt"].decode(), line.rank, line.offset)


ATTEMPTS = (
    LineFormat(
        name="attempt",
        literals=(b"[batchai] attempt #",),
        pattern=line_pattern(rb"\[batchai\] attempt (?P<attempt>" + COUNT + rb") begins on [^\r\n]{1,4096}"),
        fields=(),
        sample="[batchai] attempt 2 begins on node2: Slurm took its nodes for another job",
        read=_read,
    ),
)
