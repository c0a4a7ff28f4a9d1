"""Filters a log for a terminal: passes text and colors, drops all other control sequences."""

from __future__ import annotations

import re

_MAX_PENDING = 4096  # longest incomplete sequence held back, in bytes

_SEQUENCE = re.compile(
    rb"\x1b\[(?P<sgr>[0-9;:]*)m|\x1b\[[0-2]?K"  # SGR; erase in line, as progress bars use
    rb"|(?P<direction>\xe2\x80[\xaa-\xae]|\xe2\x81[\xa6-\xa9])"
    rb"|(?P<other>\x1b\[[0-?]*[ -/]*[@-~]?"
    rb"|\x1b[]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # OSC and the like: title, clipboard, hyperlink
    rb"|\x1b[ -/]*[0-~]?|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]|\xc2[\x80-\x9f])"
    rb"|[\xc3-\xdf][\x80-\xbf]|\xc2[\xa0-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xef][\x80-\xbf]{2}"
    rb"|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf4][\x80-\xbf]{3}"  # valid UTF-8 characters
    rb"|(?P<single>[\x80-\x9f])"  # C1 controls of 8-bit terminals
)
_INCOMPLETE = re.compile(
    rb"(?:\x1b(?:\[[0-?]*[ -/]*|[]PX^_][^\x07\x1b\n]*\x1b?|[ -/]*)"
    rb"|[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2})\Z"
)
_CONCEALED = 8
_COLOUR_LENGTHS = {"5": 2, "2": 4}  # parameters after the first in `38;5;N` and `38;2;R;G;B`


class TerminalText:
    """Filters the bytes of one stream, in any chunking.

    Passes colors, erase-in-line, tabs and carriage returns; escapes bidirectional marks; drops all other
    control sequences and the SGR code that conceals text.
    """

    def __init__(self) -> None:
        self._pending = b""

    def feed(self, data: bytes) -> bytes:
        """Filters these bytes; an incomplete sequence at the end is held back for the next call."""
        data = self._pending + data
        incomplete = _INCOMPLETE.search(data, max(0, len(data) - _MAX_PENDING))
        cut = incomplete.start() if incomplete else len(data)
        self._pending = data[cut:]
        return _SEQUENCE.sub(_filtered, data[:cut])

    def finish(self) -> bytes:
        """Filters what was held back, at the end of the stream."""
        data, self._pending = self._pending, b""
        return _SEQUENCE.sub(_filtered, data)


def _filtered(match: re.Match[bytes]) -> bytes:
    if match["direction"]:
        return match[0].decode().encode("unicode_escape")
    if match["sgr"] and b"8" in match["sgr"]:
        return _unconcealed(match["sgr"].decode())
    return b"" if match["other"] or match["single"] else match[0]


def _unconcealed(parameters: str) -> bytes:
    """SGR parameters without the conceal code, which as a color number is kept."""
    codes, colours = parameters.split(";"), []
    while codes:
        code = codes.pop(0)
        if code in ("38", "48", "58"):
            length = _COLOUR_LENGTHS.get(codes[0], 0) if codes else 0
            colours += [code, *codes[:length]]
            del codes[:length]
        elif int(code.partition(":")[0] or 0) != _CONCEALED:
            colours.append(code)
    return f"\x1b[{';'.join(colours)}m".encode() if colours else b""
