"""`batchai use`: the session's choices."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace

from batchai_magics.backends.base.registry import choose
from batchai_magics.commands.context import Context
from batchai_magics.commands.handlers.choice import NAMES, Choice
from batchai_magics.models.ids import Kind, check_name, cluster_id, workspace_id


def use(context: Context, arguments: Namespace) -> Choice:
    """The settings with what the line chooses; without options, those that hold now."""
    given = {name: getattr(arguments, name) for name in NAMES}
    settings = replace(context.settings, **{name: value for name, value in given.items() if value})
    if arguments.backend:
        settings = choose(settings, arguments.backend)
    check_name(settings.experiment, Kind.EXPERIMENT)
    cluster_id(settings.cluster, workspace_id(settings))
    return Choice(settings)


def is_choosing(arguments: Namespace) -> bool:
    """Whether the line changes anything."""
    return any(getattr(arguments, name) for name in NAMES)
