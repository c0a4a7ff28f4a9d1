"""What a bare number in front of a file's lines is: a position, or the rank that `srun -l` tells.

It is a rank from the first line on where it stands beside a position, as in `3: Epoch 2: loss 0.5`.
"""

from __future__ import annotations

import re

from batchai_magics.metrics.grammar.line_grammar import read_line
from batchai_magics.metrics.grammar.line_interest import may_matter
from batchai_magics.metrics.grammar.prefix_grammar import NUMBER_IN_FRONT

_MAX_SEEN = 1 << 16
_LABELLED = re.compile(rb"\n(?=[ \[0-9]) {0,3}(?:\[[0-9]{1,6}\]|[0-9]{1,6}:) ")  # finds NUMBER_IN_FRONT fast
_ZEROS = bytes.maketrans(b"123456789", b"000000000")


class RankLabels:
    """The bare numbers in front of one file's lines."""

    def __init__(self) -> None:
        self.are_ranks = False
        self._seen: set[bytes] = set()

    def tells_rank(self, line: bytes) -> bool:
        """Whether a number stands in front of a line beside a position; lines of one form are alike."""
        label = NUMBER_IN_FRONT.match(line)
        if label is None or (form := line.translate(_ZEROS)) in self._seen:
            return False
        reading = read_line(line) if may_matter(line) else None
        if reading is not None and reading.rank == label.span("rank") and (reading.step or reading.epoch):
            return True
        if len(self._seen) >= _MAX_SEEN:
            self._seen.clear()
        self._seen.add(form)
        return False

    def first_telling(self, lines: bytes) -> int | None:
        """Where the first of some lines that tells a rank begins; None without one."""
        for label in _LABELLED.finditer(b"\n" + lines):
            begin, end = label.start(), lines.find(b"\n", label.start())
            if self.tells_rank(lines[begin : end if end >= 0 else len(lines)]):
                return begin
        return None
