"""The plain tags of a buffer, `[1,3]<stdout>:` at the start of a line, as columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from batchai_magics.metrics.reading.bulk_scan import unaligned
from batchai_magics.metrics.reading.bulk_steps import digits_before

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

NAMES = (b"<stdout>:", b"<stderr>:", b"<stddiag>:")
_MAX_RANK_DIGITS = 6
_MAX_JOB_DIGITS = 7  # more are left to the parser
_OPEN, _CLOSE, _COMMA, _BLANK, _NEWLINE = b"[], \n"


@dataclass(frozen=True)
class Tags:
    """Some tags, a row each: only the rows with `is_plain` stand at the start of a line and tell a rank."""

    is_plain: Array
    place: Array  # of the stream's name
    begin: Array
    end: Array  # where the text begins
    rank: Array

    def __len__(self) -> int:
        return len(self.place)

    def before(self, places: Array) -> Array:
        """The row of the last tag before each place, -1 without one."""
        return np.searchsorted(self.place, places) - 1

    def ends_at(self, places: Array, rows: Array) -> Array:
        """Whether the text of these rows begins at these places."""
        return (rows >= 0) & (self.end[rows] == places) if len(self) else np.zeros(len(places), np.bool_)


_NOWHERE = np.zeros(0, np.int64)
_NO_TAGS = Tags(np.zeros(0, np.bool_), _NOWHERE, _NOWHERE, _NOWHERE, np.zeros(0, np.int32))


def read_tags(buffer: bytearray, places: dict[bytes, Array]) -> Tags:
    """The tags whose names stand at these places."""
    if not places:
        return _NO_TAGS
    text, words = np.frombuffer(buffer, np.uint8), unaligned(buffer, np.uint64)
    names = [name for name in NAMES if name in places]
    place = np.concatenate([places[name] for name in names])
    end = np.concatenate([places[name] + len(name) for name in names])
    order = np.argsort(place, kind="stable")
    place, end = place[order], end[order]
    rank, width = digits_before(words, place - 1)
    is_plain = (text[place - 1] == _CLOSE) & (width > 0) & (width <= _MAX_RANK_DIGITS)
    left = place - 2 - width
    has_job = text[left] == _COMMA
    _, job_width = digits_before(words, left)
    is_plain &= ~has_job | ((job_width > 0) & (job_width <= _MAX_JOB_DIGITS))
    begin = np.where(has_job, left - 1 - job_width, left)
    is_plain &= (text[begin] == _OPEN) & (text[begin - 1] == _NEWLINE)
    end += text[end] == _BLANK  # Open MPI 5 puts a blank behind its tags
    return Tags(is_plain, place, begin, end, rank.astype(np.int32))
