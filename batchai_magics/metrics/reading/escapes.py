"""What a terminal takes as a command and does not show: colours, titles, movements of the cursor."""

from __future__ import annotations

import re

_SEQUENCES = r"\x1b\[[0-9;:?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"
_SILENT = re.compile(rf"{_SEQUENCES}|\x1b|[\0\b]+".encode())
_CONTROLS = re.compile(rf"{_SEQUENCES}|[\x00-\x08\x0b-\x1f\x7f]")


def without_escapes(line: bytes) -> bytes:
    """A line without the commands, and without NUL and backspace."""
    return _SILENT.sub(b"", line)


def without_controls(text: str) -> str:
    """A text without the commands, and without any control character but tab and newline."""
    return _CONTROLS.sub("", text)
