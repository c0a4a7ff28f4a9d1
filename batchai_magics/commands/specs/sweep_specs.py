"""Command specs of `sweep …`."""

from __future__ import annotations

from batchai_magics.commands.specs import shared_options as o
from batchai_magics.commands.specs.shared_options import OUTPUTS, CommandSpec
from batchai_magics.options.option import NameKind

GROUPS = {"sweep": "Sweeps: jobs that run one cell with different parameters."}

_SOME = (o.GROUP, o.WORKSPACE, o.EXPERIMENT)
_SWEEP = (*_SOME, o.name_option("sweep", NameKind.SWEEP))
_TABLES = (*OUTPUTS, "csv")

COMMANDS = (
    CommandSpec("sweep list", "List the sweeps of an experiment.", "handlers.sweep_commands:list_all", _SOME),
    CommandSpec(
        "sweep show",
        "Show the trials of a sweep: parameters, states, metrics.",
        "handlers.sweep_commands:show",
        _SWEEP,
        outputs=_TABLES,
    ),
    CommandSpec(
        "sweep wait",
        "Wait until a sweep has ended, and take its steps meanwhile.",
        "handlers.sweep_commands:wait",
        _SWEEP,
    ),
    CommandSpec(
        "sweep cancel",
        "Cancel all trials of a sweep that have not ended.",
        "handlers.sweep_commands:cancel",
        (*_SWEEP, o.YES),
        is_confirmed=True,
    ),
)
