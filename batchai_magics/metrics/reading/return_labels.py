r"""Ends lines at carriage returns, and tells which parts belong to a rank whose label precedes them.

A launcher labels the start of a line, but a progress bar draws itself again behind a `\r`, within the line:
`[rank3]:\rEpoch 1:  10%|# ... \rEpoch 1:  20%|## ... \n` is all of rank 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from batchai_magics.metrics.reading.prefix_patterns import (
    LABEL,
    LABELLED_RETURN,
    PREFIX,
    RANK_WORD,
    has_tag,
    rank_of,
)

_MAX_LABEL_BYTES = 200


class Stretch(NamedTuple):
    """Lines from `begin` to `end`, and the rank whose label stands once before them."""

    begin: int
    end: int
    rank: int | None


class ReturnLabels:
    """The state of one file's line that is not complete: whether it is a part, and of which rank."""

    def __init__(self) -> None:
        self._rank: int | None = None  # of the parts behind a label
        self._is_part = False  # the text begins behind a carriage return

    def rank_of_rest(self, rest: bytes) -> int | None:
        """The rank whose label stands before an unfinished line."""
        return self._rank if self._is_part and not _has_own_rank(rest) else None

    def pass_by(self, data: bytes | bytearray) -> bool:
        """Pass bytes without a carriage return, unless they may be of a labelled line; whether they were."""
        if self._rank is not None or b"\r" in data:
            return False
        if self._is_part and b"\n" in data:
            self._is_part = False
        return True

    def end_lines(self, text: bytes) -> tuple[bytes, list[Stretch]]:
        """End lines at carriage returns, which leaves the text as long as it is.

        Args:
            text: The unfinished line that the last call left, and the bytes behind it.

        Returns:
            The lines, and the stretches of those that follow a label.
        """
        are_parts = text.count(b"\r") > text.count(b"\r\n")
        if self._rank is None and not (
            are_parts and LABELLED_RETURN.search(text if self._is_part else b"\n" + text)
        ):
            last = max(text.rfind(b"\r"), text.rfind(b"\n"))
            if last >= 0:
                self._is_part = text[last : last + 1] == b"\r"
            return text.replace(b"\r", b"\n"), []
        lines, stretches, at = list[bytes](), list[Stretch](), 0
        for line in text.split(b"\n"):
            if lines:
                self._rank, self._is_part = None, False
            lines.append(self._label(line) if b"\r" in line else line)
            if found := self._stretch(lines[-1], at, is_last=at + len(line) == len(text)):
                stretches.append(found)
            self._is_part = self._is_part or b"\r" in lines[-1]
            at += len(line) + 1
        return b"\n".join(lines).replace(b"\r", b"\n"), stretches

    def _label(self, line: bytes) -> bytes:
        """Find the label of a line; the first part is put behind one that stands alone."""
        is_alone = self._rank is not None
        while not self._is_part and (place := line.find(b"\r")) >= 0:
            label = PREFIX.match(line, 0, min(place, _MAX_LABEL_BYTES))
            if label is None or (rank := rank_of(label)) is None:
                break
            if label.end() < place:
                self._rank = rank if is_alone or RANK_WORD.match(line) else None
                break
            self._rank, is_alone, line = rank, True, line[:place] + b" " + line[place + 1 :]
        return line

    def _stretch(self, line: bytes, at: int, *, is_last: bool) -> Stretch | None:
        """The parts of a line that belong to the rank before them; the last one may be unfinished."""
        rank, begin = self._rank, 0
        if not self._is_part:
            begin = line.find(b"\r") + 1
            if LABEL.search(line, 0, begin - 1 if begin else 0):
                self._rank = None
        if rank is None or self._rank is None or (not self._is_part and not begin):
            return None
        parts, stop = line[begin:].split(b"\r"), begin
        for number, part in enumerate(parts, 1):
            if _has_own_rank(part):
                self._rank = None
                break
            stop += len(part) + 1
            if number < len(parts) and LABEL.search(part):
                self._rank = None
                break
        end = at + min(stop, len(line) + (not is_last))
        return Stretch(at + begin, end, rank) if at + begin < end else None


def all_of(stretches: Iterable[Stretch], begin: int, end: int) -> Iterator[Stretch]:
    """The text from `begin` to `end` in stretches with and without a label, in order."""
    at = begin
    for stretch in stretches:
        first, last = min(max(stretch.begin, at), end), min(stretch.end, end)
        if at < first:
            yield Stretch(at, first, None)
        if first < last:
            yield Stretch(first, last, stretch.rank)
        at = max(first, last)
    if at < end:
        yield Stretch(at, end, None)


def _has_own_rank(part: bytes) -> bool:
    """Whether a part begins with a label, or has a tag."""
    return has_tag(part) or rank_of(PREFIX.match(part, 0, _MAX_LABEL_BYTES)) is not None
