"""`batchai list-usages`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from batchai_magics.backends.base import USAGES, Usage
from batchai_magics.commands.context import Context


def list_all(context: Context, arguments: Namespace) -> Sequence[Usage]:
    """What is used of each quota."""
    return USAGES.of(context.backend).list(arguments.location or context.settings.location)
