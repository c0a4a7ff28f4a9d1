"""`workspace …` and `experiment …`."""

from __future__ import annotations

from batchai_magics.commands.parsing import arguments as o
from batchai_magics.commands.parsing.arguments import usual
from batchai_magics.commands.parsing.tree import Command
from batchai_magics.options.option import NameKind, Option

GROUPS = {
    "workspace": "Workspaces, which hold clusters and experiments.",
    "experiment": "Experiments, which hold jobs.",
}

_WORKSPACE = (
    o.GROUP,
    Option(
        ("--name", "-n", "--workspace"),
        "Name of the workspace.",
        is_required=True,
        completes=NameKind.WORKSPACE,
    ),
)
_EXPERIMENT = (o.GROUP, o.WORKSPACE, o.named("experiment", NameKind.EXPERIMENT))

COMMANDS = (
    Command(
        "workspace create", "Create a workspace.", "handlers.workspace:create", (*_WORKSPACE, o.LOCATION)
    ),
    *usual("workspace", one=_WORKSPACE, several=(o.GROUP,)),
)
EXPERIMENT_COMMANDS = (
    Command("experiment create", "Create an experiment.", "handlers.experiment:create", _EXPERIMENT),
    *usual("experiment", one=_EXPERIMENT, several=(o.GROUP, o.WORKSPACE)),
    Command(
        "experiment wait",
        "Wait until all jobs of an experiment have ended.",
        "handlers.experiment:wait",
        (o.GROUP, o.WORKSPACE, o.named("experiment", NameKind.EXPERIMENT, is_required=False)),
    ),
)
