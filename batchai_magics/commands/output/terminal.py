"""A log on its way to a terminal: text and its colours go on, what else would steer the terminal does not."""

from __future__ import annotations

import re

_LONGEST = 4096  # bytes of a sequence that is waited for

_SEQUENCE = re.compile(
    rb"\x1b\[(?P<sgr>[0-9;:]*)m|\x1b\[[0-2]?K"  # colours and weights; the rest of a line wiped, as bars do
    rb"|(?P<direction>\xe2\x80[\xaa-\xae]|\xe2\x81[\xa6-\xa9])"
    rb"|(?P<other>\x1b\[[0-?]*[ -/]*[@-~]?"
    rb"|\x1b[]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # a title, the clipboard, a link
    rb"|\x1b[ -/]*[0-~]?|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]|\xc2[\x80-\x9f])"
    rb"|[\xc3-\xdf][\x80-\xbf]|\xc2[\xa0-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xef][\x80-\xbf]{2}"
    rb"|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf4][\x80-\xbf]{3}"  # characters, in which no byte is a control
    rb"|(?P<single>[\x80-\x9f])"  # what eight-bit terminals take for ESC and a letter
)
_BEGUN = re.compile(
    rb"(?:\x1b(?:\[[0-?]*[ -/]*|[]PX^_][^\x07\x1b\n]*\x1b?|[ -/]*)"
    rb"|[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2})\Z"
)
_CONCEALED = 8
_COLOUR_LENGTHS = {"5": 2, "2": 4}  # of `38;5;N` and `38;2;R;G;B`, without the first number


class TerminalText:
    """The bytes of one stream, in any chunking, as a terminal may have them.

    Kept are colours, the wiping of a line, tabs and carriage returns. Marks that turn the direction of text
    are written out; everything else that is no text is left out, as is what would conceal text.
    """

    def __init__(self) -> None:
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """What can go on of these bytes and of what was held back; the beginning of a sequence waits."""
        data = self._held + data
        begun = _BEGUN.search(data, max(0, len(data) - _LONGEST))
        cut = begun.start() if begun else len(data)
        self._held = data[cut:]
        return _SEQUENCE.sub(_kept, data[:cut])

    def finish(self) -> bytes:
        """What was held back, at the stream's end."""
        data, self._held = self._held, b""
        return _SEQUENCE.sub(_kept, data)


def _kept(match: re.Match[bytes]) -> bytes:
    if match["direction"]:
        return match[0].decode().encode("unicode_escape")
    if match["sgr"] and b"8" in match["sgr"]:
        return _unconcealed(match["sgr"].decode())
    return b"" if match["other"] or match["single"] else match[0]


def _unconcealed(parameters: str) -> bytes:
    """Colours and weights without the one that conceals text; a colour may have its number."""
    codes, kept = parameters.split(";"), []
    while codes:
        code = codes.pop(0)
        if code in ("38", "48", "58"):
            length = _COLOUR_LENGTHS.get(codes[0], 0) if codes else 0
            kept += [code, *codes[:length]]
            del codes[:length]
        elif int(code.partition(":")[0] or 0) != _CONCEALED:
            kept.append(code)
    return f"\x1b[{';'.join(kept)}m".encode() if kept else b""
