"""Completion on magic lines from the command tree and live names. Independent of IPython."""

from __future__ import annotations

import contextlib
import importlib
import re
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from batchai_magics.commands.parsing.command_completion import NameLookup
    from batchai_magics.config import Settings
    from batchai_magics.options.option import Expected


_ON_CELL_LINE = re.compile(r"%%?batchai_job\s+(?P<rest>.*)")
_ON_LINE = re.compile(r"\s*(?:[\w\s,().\[\]]+=\s*)?%(?P<magic>az|batchai)\s+(?P<rest>.*)")


WARM_UP_S = 1.0  # after loading, when a notebook is probably idle
_NEEDED = (
    "cell.cell_options",
    "commands.parsing.command_completion",
    "jobs.submit",
)


def schedule_warm_up() -> threading.Timer:
    """Start a timer that imports in the background what the first completion needs."""
    timer = threading.Timer(WARM_UP_S, _import_needed)
    timer.name, timer.daemon = "batchai-warm-up", True
    timer.start()
    return timer


def _import_needed() -> None:
    with contextlib.suppress(Exception):  # any error will resurface at the line that needs the module
        for name in _NEEDED:
            importlib.import_module(f"batchai_magics.{name}")
        from batchai_magics.backends.base.backend_registry import import_backend

        import_backend()


def parse_line(line: str, *, is_first: bool, settings: Settings | None = None) -> tuple[Expected, str] | None:
    """Parse a line up to the cursor; the settings name the backends whose options are known.

    Returns:
        The candidates and the fragment being typed; None if it is not one of our lines.
    """
    in_cell = _ON_CELL_LINE.fullmatch(line) if is_first else None
    match = in_cell or _ON_LINE.fullmatch(line)
    if match is None:  # any other line must not import anything
        return None
    from batchai_magics.options.option import split_at_cursor

    parts = split_at_cursor(match["rest"])
    if parts is None:
        return None
    words, fragment = parts
    if in_cell:
        from batchai_magics.backends.base.backend_registry import backend_options
        from batchai_magics.cell.cell_options import expected_in_cell

        return expected_in_cell(words, backend_options(settings)), fragment
    return _expected(match["magic"], words, settings), fragment


def completions_for(
    at_cursor: tuple[Expected, str], lookup: NameLookup, variables: Iterable[str]
) -> list[str]:
    """The matching candidates: words, live names, files, `{variables}`."""
    from batchai_magics.commands.parsing.command_completion import candidates

    expected, fragment = at_cursor
    if fragment.startswith("{"):
        return [f"{{{name}}}" for name in sorted(variables) if f"{{{name}".startswith(fragment)]
    return candidates(expected, fragment, lookup.names(expected))


def _expected(magic: str, words: list[str], settings: Settings | None) -> Expected:
    from batchai_magics.commands.parsing.command_completion import expected_in_line

    if magic == "batchai":
        return expected_in_line(words, settings)
    from batchai_magics.commands.parsing.command_parser import AZ_WORDS
    from batchai_magics.commands.specs.shared_options import PROGRAM
    from batchai_magics.options.option import Expected

    if not words:
        return Expected(AZ_WORDS)
    first, *rest = words
    if first == PROGRAM:
        return expected_in_line(rest, settings)
    return expected_in_line(words, settings) if first in AZ_WORDS else Expected()
