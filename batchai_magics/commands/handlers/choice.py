"""What the session's commands use where a line names nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from batchai_magics.commands.output.table import Table
from batchai_magics.config import Settings

NAMES = ("backend", "resource_group", "workspace", "experiment", "cluster")
SHOWN = (*NAMES, "location", "storage_account")


@dataclass(frozen=True)
class Choice:
    """A choice, as the settings that follow from it. Who runs the session keeps them."""

    settings: Settings

    def to_data(self) -> dict[str, str]:
        """What is chosen, by name."""
        return {name: getattr(self.settings, name) for name in SHOWN}

    def to_table(self) -> Table:
        """What is chosen, in one row."""
        titles = tuple(name.replace("_", " ").capitalize() for name in SHOWN)
        return Table(titles, (tuple(self.to_data().values()),))
