"""`batchai use`: the session's choices, which its commands use where a line names nothing else."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from batchai_magics.backends.base.registry import (
    check_choice,
    choose,
    endpoint_of,
    open_backend,
    own_of,
    with_own,
)
from batchai_magics.commands.output.result import Noted
from batchai_magics.commands.output.table import Table
from batchai_magics.models.ids import Kind, check_name, cluster_id, workspace_id

if TYPE_CHECKING:
    from batchai_magics.commands.context import Context
    from batchai_magics.config import Settings

NAMES = ("backend", "resource_group", "workspace", "experiment", "cluster")
OWN = ("endpoint", "ssh")  # what only some backends have
SHOWN = (*NAMES, "location", "storage_account")


@dataclass(frozen=True)
class Choice:
    """A choice, as the settings that follow from it. Who runs the session keeps them."""

    settings: Settings

    def to_data(self) -> dict[str, str]:
        """What is chosen, by name."""
        told = {name: value for name in OWN if (value := own_of(self.settings, name)) is not None}
        return {**{name: getattr(self.settings, name) for name in SHOWN}, **told}

    def to_table(self) -> Table:
        """What is chosen, in one row."""
        data = self.to_data()
        titles = tuple(name.replace("_", " ").capitalize() for name in data)
        return Table(titles, (tuple(data.values()),))


def use(context: Context, arguments: Namespace) -> Choice | Noted:
    """The settings with what the line chooses; without options, those that hold now."""
    chosen = {name: getattr(arguments, name) for name in NAMES}
    settings = replace(context.settings, **{name: value for name, value in chosen.items() if value})
    settings = _with_backend(settings, arguments)
    check_name(settings.experiment, Kind.EXPERIMENT)
    cluster_id(settings.cluster, workspace_id(settings))
    note = check_choice(settings) if arguments.backend or _own(arguments) else ""
    return Noted(Choice(settings), (note,)) if note else Choice(settings)


def _with_backend(settings: Settings, arguments: Namespace) -> Settings:
    own = _own(arguments)
    if arguments.backend:
        settings = choose(settings, arguments.backend)
    if own:
        settings = with_own(settings, **own)
    if arguments.backend or own:
        _check(settings)
    return settings


def _own(arguments: Namespace) -> dict[str, str]:
    return {name: value for name in OWN if (value := getattr(arguments, name))}


def _check(settings: Settings) -> None:
    """Says what is missing, or wrong: with an endpoint nothing is sent; a login node is gone to."""
    if endpoint_of(settings) is not None or own_of(settings, "ssh"):
        open_backend(settings).close()


def is_choosing(arguments: Namespace) -> bool:
    """Whether the line changes anything."""
    return any(getattr(arguments, name) for name in (*NAMES, *OWN))
