"""Every command, one row each. A new command is a row here and a handler."""

from __future__ import annotations

from collections.abc import Collection

from batchai_magics.commands.parsing import arguments as o
from batchai_magics.commands.parsing.rows import azure, cluster, files, job, storage, workspace
from batchai_magics.commands.parsing.tree import OUTPUTS, Command
from batchai_magics.options.option import LazyChoices, NameKind, Option, ValueKind

GROUPS = {
    "": "Distributed training jobs, in the words of Azure Batch AI.",
    "metrics": "The numbers in training logs.",
    **workspace.GROUPS,
    **cluster.GROUPS,
    **job.GROUPS,
    **azure.GROUPS,
    **storage.GROUPS,
}

_LOGS = Option(("FILE",), "Log files.", value_kind=ValueKind.MANY, is_required=True, completes=NameKind.PATH)
_TIDY = Option(
    ("--tidy",), "One row a number, with unit, time and place in the file.", value_kind=ValueKind.NOTHING
)
_METRIC = Option(
    ("--metric",), "A number of your own to read, as NAME=REGEX; may be given again.", is_repeatable=True
)
_PICTURE = Option(("--out", "-o"), "Picture to write: .svg, .pdf or .png.", completes=NameKind.PATH)
_RUNS = Option(
    ("RUN",),
    "Jobs by name; log files by a path with a dot or a slash.",
    value_kind=ValueKind.MANY,
    is_required=True,
    completes=NameKind.JOB,
)
_PLOT = Option(("--plot",), "Also write the chart: .svg, .pdf or .png.", completes=NameKind.PATH)
_OVER = Option(
    ("--over",),
    "What the chart's x axis is.",
    choices=("step", "images", "seconds"),
    default="step",
)
_SIDE_BY_SIDE = (o.GROUP, o.WORKSPACE, o.EXPERIMENT, _RUNS, _PLOT)


def _backends() -> Collection[str]:
    from batchai_magics.backends.base.registry import BACKENDS

    return BACKENDS


_BACKEND = Option(("--backend",), "Where jobs run.", choices=LazyChoices(_backends))
_ENDPOINT = Option(("--endpoint",), "Address of the server, for a backend that has one.", "URL")
_SSH = Option(("--ssh",), "Login node, as ssh is given it, for a backend that has one.", "HOST")

COMMANDS = (
    *workspace.COMMANDS,
    *cluster.COMMANDS,
    *workspace.EXPERIMENT_COMMANDS,
    *job.COMMANDS,
    Command(
        "list-usages", "Show what is used of each quota.", "handlers.workspace:list_usages", (o.LOCATION,)
    ),
    Command(
        "metrics read",
        "Read the metrics in log files.",
        "handlers.metrics:read",
        (_LOGS, _TIDY, _METRIC),
        outputs=(*OUTPUTS, "csv"),
    ),
    Command(
        "metrics plot", "Draw the metrics in log files.", "handlers.metrics:plot", (_LOGS, _PICTURE, _METRIC)
    ),
    Command(
        "compare",
        "Set jobs or logs side by side.",
        "handlers.side_by_side:compare",
        (*_SIDE_BY_SIDE, _OVER),
        outputs=(*OUTPUTS, "csv"),
    ),
    Command(
        "scaling",
        "Show how images/sec grow with the processes of jobs or logs.",
        "handlers.side_by_side:scaling",
        _SIDE_BY_SIDE,
        outputs=(*OUTPUTS, "csv"),
    ),
    Command(
        "use",
        "Choose workspace, experiment, cluster and backend for this session.",
        "handlers.use:use",
        (o.GROUP, o.WORKSPACE, o.EXPERIMENT, o.CLUSTER, _BACKEND, _ENDPOINT, _SSH),
    ),
    Command(
        "clean",
        "Remove all jobs, clusters, shares and state that lie on this machine.",
        "handlers.clean:clean",
        (o.YES,),
        is_confirmed=True,
        preview="handlers.clean:preview",
    ),
    *azure.COMMANDS,
    *storage.COMMANDS,
    *files.COMMANDS,
)
