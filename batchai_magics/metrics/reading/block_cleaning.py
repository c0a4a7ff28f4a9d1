"""Whole lines of a buffer without a terminal's commands: the usual ones are found and taken out at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from batchai_magics.metrics.reading.line_cleaning import clean_lines, has_controls
from batchai_magics.metrics.reading.line_prefixes import TagShapes
from batchai_magics.metrics.reading.prefix_patterns import has_tag

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_ESCAPE, _BRACKET = ord("\x1b"), ord("[")
_CONTROLS = b"\x1b\0\b"
_GAP_BYTES = 1 << 14  # so much without a command is not worth a stretch of its own
_PIECE_BYTES = 1 << 14


def _is_any_of(chars: bytes) -> Array:
    """For each byte, whether it is one of these characters."""
    is_any = np.zeros(256, np.bool_)
    is_any[list(chars)] = True
    return is_any


_IS_PARAMETER = _is_any_of(b"0123456789;:?")
_IS_LAST = _is_any_of(bytes(range(ord("@"), ord("~") + 1)))


def cleaned(lines: bytes, tags: TagShapes) -> bytes:
    """Many lines without what can be taken out of them: some may be left as they are."""
    parts: list[bytes] = []
    done = 0
    for begin, end in _stretches(lines):
        stretch = lines[begin:end]
        shown = _without_usual_codes(stretch)
        parts += lines[done:begin], _by_pieces(stretch, tags) if shown is None else shown
        done = end
    return b"".join((*parts, lines[done:]))


def _stretches(lines: bytes) -> Iterator[tuple[int, int]]:
    """Where lines with something to take out stand, near ones together."""
    places = controls_in(lines, 0, len(lines))
    if not len(places):
        return
    gaps = np.flatnonzero(np.diff(places) > _GAP_BYTES)
    firsts, lasts = places[[0, *(gaps + 1)]], places[[*gaps, -1]]
    done = 0
    for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
        begin, end = max(done, lines.rfind(b"\n", 0, first) + 1), lines.find(b"\n", last) + 1
        if begin < end:
            yield begin, end
        done = end


def controls_in(data: bytes | bytearray, start: int, end: int) -> Array:
    """The ascending places in `data[start:end]` of characters that begin what is taken out of a line."""
    text = np.frombuffer(data, np.uint8)[start:end]
    found = [np.flatnonzero(text == char) for char in _CONTROLS if data.find(char, start, end) >= 0]
    places: Array = np.sort(np.concatenate(found)) if len(found) > 1 else [*found, np.zeros(0, np.int64)][0]
    return places + start


def _without_usual_codes(lines: bytes) -> bytes | None:
    """Lines without tags, and without commands; None if these are not all like those of colours."""
    text = np.frombuffer(lines, np.uint8)
    places = controls_in(lines, 0, len(lines))
    is_kept = np.ones(len(text), np.bool_)
    is_kept[places] = False
    places = places[text[places] == _ESCAPE] + 1
    if has_tag(lines) or not (text[places] == _BRACKET).all():
        return None
    while len(places):
        is_kept[places] = False
        places = places + 1  # a character behind it is there: the lines end with a newline
        chars = text[places]
        is_last, is_parameter = _IS_LAST[chars], _IS_PARAMETER[chars]
        if not (is_last | is_parameter).all():
            return None
        is_kept[places[is_last]] = False
        places = places[is_parameter]
    shown = text[is_kept].tobytes()
    return None if has_tag(shown) else shown


def _by_pieces(lines: bytes, tags: TagShapes) -> bytes:
    pieces, start = [], 0
    while start < len(lines):
        end = lines.find(b"\n", start + _PIECE_BYTES) + 1 or len(lines)
        piece = lines[start:end]
        pieces.append((has_controls(piece) and clean_lines(piece, tags, is_tagged=has_tag(piece))) or piece)
        start = end
    return b"".join(pieces)
