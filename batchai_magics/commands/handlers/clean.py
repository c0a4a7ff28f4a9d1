"""`batchai clean`: what a backend keeps on this machine is counted, and removed."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass
from typing import Any

from batchai_magics.backends.base import CLEANING, StoredItem
from batchai_magics.commands.context import Context
from batchai_magics.commands.output.table import Table

_UNITS = ("B", "kB", "MB", "GB", "TB")


@dataclass(frozen=True)
class Cleaned:
    """What was removed, or would be."""

    parts: tuple[StoredItem, ...]

    def to_data(self) -> list[dict[str, Any]]:
        """One object a part."""
        return [
            {"part": part.name, "files": part.file_count, "bytes": part.size_bytes, "path": part.path}
            for part in self.parts
        ]

    def to_table(self) -> Table:
        """One row a part, and one for all."""
        rows = [(part.name, part.file_count, size(part.size_bytes), part.path) for part in self.parts]
        total = (
            "all",
            sum(p.file_count for p in self.parts),
            size(sum(p.size_bytes for p in self.parts)),
            "",
        )
        return Table(("Part", "Files", "Size", "Path"), (*rows, total))


def preview(context: Context, arguments: Namespace) -> Cleaned:
    """What would be removed; ConflictError while jobs run."""
    cleaning = CLEANING.of(context.backend)
    cleaning.check()
    return Cleaned(tuple(cleaning.stored_items()))


def clean(context: Context, arguments: Namespace) -> Cleaned:
    """Removes everything that the backend keeps here; gives what that was."""
    cleaned = preview(context, arguments)
    CLEANING.of(context.backend).clean()
    return cleaned


def size(size_bytes: float) -> str:
    """A size as people read it: 12.3 MB."""
    unit = 0
    while size_bytes >= 1000 and unit < len(_UNITS) - 1:
        size_bytes, unit = size_bytes / 1000, unit + 1
    return f"{size_bytes:.3g} {_UNITS[unit]}" if unit else f"{size_bytes} B"
