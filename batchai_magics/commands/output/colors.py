"""JSON in colours, for `-o jsonc` on a terminal. Pure."""

from __future__ import annotations

import re

_STRING = r'"(?:[^"\\]|\\.)*"'
_TOKEN = re.compile(
    rf"(?P<name>{_STRING}(?=\s*:))|(?P<text>{_STRING})|(?P<value>\b(?:true|false|null)\b|-?\d[\d.eE+-]*)"
)
_COLORS = {"name": 34, "text": 32, "value": 35}  # blue, green, magenta, of the terminal's own shades


def colored(json: str) -> str:
    """The same text with the terminal's colour codes around names, texts and other values."""
    return _TOKEN.sub(lambda token: f"\x1b[{_COLORS[str(token.lastgroup)]}m{token[0]}\x1b[0m", json)
