"""A log on its way to a terminal: text and its colours go on, what else would steer the terminal does not."""

from __future__ import annotations

import re

_LONGEST = 4096  # bytes of a sequence that is waited for

_SEQUENCE = re.compile(
    rb"\x1b\[(?P<sgr>[0-9;:]*)m|\x1b\[[0-2]?K"  # colours and weights; the rest of a line wiped, as bars do
    rb"|(?P<direction>\xe2\x80[\xaa-\xae]|\xe2\x81[\xa6-\xa9])"
    rb"|(?P<other>\x1b\[[0-?]*[ -/]*[@-~]?"
    rb"|\x1b[]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # a title, the clipboard, a link
    rb"|\x1b[ -/]*[0-~]?|[\x00-\x07\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]|\xc2[\x80-\x9f])"
)
_BEGUN = re.compile(rb"(?:\x1b(?:\[[0-?]*[ -/]*|[]PX^_][^\x07\x1b\n]*\x1b?|[ -/]*)|\xc2|\xe2[\x80\x81]?)\Z")


class TerminalText:
    """The bytes of one stream, in any chunking, as a terminal may have them.

    Kept are colours, the wiping of a line, tabs, carriage returns and backspaces. Marks that turn the
    direction of text are written out; everything else that is no text is left out.
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
    return b"" if match["other"] else match[0]
