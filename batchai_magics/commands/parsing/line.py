"""A line as typed in a notebook becomes words."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from batchai_magics.errors import UsageError


def words(line: str, names: Mapping[str, object]) -> list[str]:
    """The words of a line, `{name}` replaced by the variable's value; a JMESPath query keeps its braces."""
    try:
        parts = shlex.split(line)
    except ValueError as error:
        raise UsageError(f"the line cannot be split into words: {error}", hint="close the quotes") from None
    return [
        part if "{" not in part or _is_query(parts, place) else _expand(part, names)
        for place, part in enumerate(parts)
    ]


def _is_query(parts: list[str], place: int) -> bool:
    return parts[place].startswith("--query=") or (place > 0 and parts[place - 1] == "--query")


def _expand(part: str, names: Mapping[str, object]) -> str:
    from batchai_magics.cell.line import expand

    return expand(part, names)
