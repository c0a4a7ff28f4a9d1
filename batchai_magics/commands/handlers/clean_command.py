"""`batchai clean`: counts and removes the files that a backend stores on this machine."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass
from typing import Any

from batchai_magics.backends.base import CLEANING, StoredItem
from batchai_magics.commands.command_context import Context
from batchai_magics.commands.output.text_table import Table

_UNITS = ("B", "kB", "MB", "GB", "TB")


@dataclass(frozen=True)
class CleaningReport:
    """What was or would be removed."""

    parts: tuple[StoredItem, ...]

    def to_data(self) -> list[dict[str, Any]]:
        """One object per part."""
        return [
            {"part": part.name, "files": part.file_count, "bytes": part.size_bytes, "path": part.path}
            for part in self.parts
        ]

    def to_table(self) -> Table:
        """One row per part, and the total."""
        rows = [(part.name, part.file_count, format_size(part.size_bytes), part.path) for part in self.parts]
        total = (
            "all",
            sum(p.file_count for p in self.parts),
            format_size(sum(p.size_bytes for p in self.parts)),
            "",
        )
        return Table(("Part", "Files", "Size", "Path"), (*rows, total))


def preview(context: Context, arguments: Namespace) -> CleaningReport:
    """What would be removed; raises ConflictError while jobs run."""
    cleaning = CLEANING.of(context.backend)
    cleaning.check()
    return CleaningReport(tuple(cleaning.stored_items()))


def clean(context: Context, arguments: Namespace) -> CleaningReport:
    """Removes everything that the backend stores on this machine."""
    cleaned = preview(context, arguments)
    CLEANING.of(context.backend).clean()
    return cleaned


def format_size(size_bytes: float) -> str:
    """A human-readable size: 12.3 MB."""
    unit = 0
    while size_bytes >= 1000 and unit < len(_UNITS) - 1:
        size_bytes, unit = size_bytes / 1000, unit + 1
    return f"{size_bytes:.3g} {_UNITS[unit]}" if unit else f"{size_bytes} B"
