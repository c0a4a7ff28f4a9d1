"""The command table. A new command is a spec here and a handler."""

from __future__ import annotations

from collections.abc import Collection

from batchai_magics.commands.specs import cluster_specs, job_specs, session_specs, storage_specs
from batchai_magics.commands.specs import shared_options as o
from batchai_magics.commands.specs.shared_options import OUTPUTS, CommandSpec
from batchai_magics.options.option import LazyChoices, NameKind, Option, ValueKind

GROUPS = {
    "": "Distributed training jobs, in the words of Azure Batch AI.",
    "metrics": "Metrics in training logs.",
    "notify": "Notifications of jobs.",
    **cluster_specs.WORKSPACE_GROUPS,
    **cluster_specs.CLUSTER_GROUPS,
    **job_specs.GROUPS,
    **session_specs.GROUPS,
    **storage_specs.GROUPS,
}

_LOGS = Option(("FILE",), "Log files.", value_kind=ValueKind.MANY, is_required=True, completes=NameKind.PATH)
_TIDY = Option(
    ("--tidy",),
    "One row per number, with unit, time and place in the file.",
    value_kind=ValueKind.NOTHING,
)
_METRIC = Option(("--metric",), "Custom metric to read, as NAME=REGEX; may be repeated.", is_repeatable=True)
_PICTURE = Option(("--out", "-o"), "Image to write: .svg, .pdf or .png.", completes=NameKind.PATH)
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
_RATE = Option(
    ("--metric",), "The rate to study: tokens_per_sec; by default images/sec, else the first one.", "NAME"
)
_SIDE_BY_SIDE = (o.GROUP, o.WORKSPACE, o.EXPERIMENT, _RUNS, _PLOT)


_OLDER_THAN = Option(("--older-than",), "Only runs that ended at least this long ago: 12h, 30d, 8w.", "AGE")
_KEEP_TAGGED = Option(("--keep-tagged",), "Keep runs that have a tag.", value_kind=ValueKind.NOTHING)
_SOME = (o.GROUP, o.WORKSPACE, o.EXPERIMENT)
_NAME = Option(("NAME",), "Name of the job.", is_required=True, completes=NameKind.JOB)
_FOLLOW = Option(("--follow", "-f"), "Follow the log until the job has ended.", value_kind=ValueKind.NOTHING)
_OUT = Option(("--out",), "Only stdout.", value_kind=ValueKind.NOTHING)
_ERR = Option(("--err",), "Only stderr.", value_kind=ValueKind.NOTHING)
_FILE = Option(("--file",), "Another file of the job's logs.", completes=NameKind.OUTPUT)
_RANK = Option(("--rank",), "Only the output of this rank.", "NUMBER", ValueKind.NUMBER, minimum=0)
_SINCE = Option(("--since",), "Only output of the last 30s, 5m or 2h.", "TIME")
_TAIL = Option(("--tail",), "Only the last lines.", "COUNT", ValueKind.NUMBER, minimum=1)
_NAME_OR_FILE = Option(
    ("NAME",), "Name of the job, or a recording's file.", is_required=True, completes=NameKind.JOB
)
_NO_BROWSER = Option(("--no-browser",), "Only print the address.", value_kind=ValueKind.NOTHING)
_HTML = Option(
    ("--html",), "Write the replay of a recording as a page to this file, and open nothing.", "FILE"
)
_TO = Option(("--to", "-f"), "The file; one that ends in .html is a page that replays it.", "FILE")
_PATH = Option(
    ("PATH",), "A file or folder as `files` lists it, or the end of its path.", completes=NameKind.RESULT
)
_DEST = Option(
    ("--to", "-d"), "The folder to copy to; by default one of the job's name.", "DIR", completes=NameKind.PATH
)

_SHORT_COMMANDS = (
    CommandSpec(
        "logs",
        "Print what a job wrote to stdout and stderr.",
        "handlers.log_commands:logs",
        (*_SOME, _NAME, _FOLLOW, _OUT, _ERR, _FILE, _RANK, _SINCE, _TAIL),
    ),
    CommandSpec(
        "show",
        "Show the state, the headline metric and the first failure of a job.",
        "handlers.job_commands:show",
        (*_SOME, _NAME),
        prints_summaries=True,
    ),
    CommandSpec(
        "stacks",
        "Show where each rank of a running job is, and which one differs.",
        "handlers.run_record_commands:stacks",
        (*_SOME, _NAME),
    ),
    CommandSpec(
        "open",
        "Open the live view of a job, or a recording, as a page of its own.",
        "handlers.view_commands:open_page",
        (*_SOME, _NAME_OR_FILE, _NO_BROWSER, _HTML),
    ),
    CommandSpec(
        "record",
        "Record what the live view of a job shows, until it has ended.",
        "handlers.view_commands:record",
        (*_SOME, _NAME, _TO),
    ),
    CommandSpec(
        "bug-report",
        "Record a job with versions and settings, secrets masked, to attach to an issue.",
        "handlers.view_commands:bug_report",
        (*_SOME, _NAME, _TO),
    ),
    CommandSpec(
        "files", "List what a job wrote, results first.", "handlers.result_commands:files", (*_SOME, _NAME)
    ),
    CommandSpec(
        "download",
        "Copy what a job wrote to this machine: all, a folder, or a file.",
        "handlers.result_commands:download",
        (*_SOME, _NAME, _PATH, _DEST),
    ),
    CommandSpec("cancel", "Cancel a job.", "handlers.job_commands:cancel", (*_SOME, _NAME)),
    CommandSpec(
        "ps",
        "List queued and running jobs.",
        "handlers.job_commands:active",
        _SOME,
        prints_summaries=True,
    ),
    CommandSpec(
        "watch",
        "Show the newest jobs live, until Ctrl-C.",
        "handlers.job_commands:watched",
        _SOME,
        prints_summaries=True,
    ),
)


def _backends() -> Collection[str]:
    from batchai_magics.backends.base.backend_registry import BACKENDS

    return BACKENDS


_BACKEND = Option(("--backend",), "Where jobs run.", choices=LazyChoices(_backends))
_ENDPOINT = Option(("--endpoint",), "Address of the server, for a backend that has one.", "URL")
_SSH = Option(("--ssh",), "Login node, as ssh is given it, for a backend that has one.", "HOST")

COMMANDS = (
    *cluster_specs.WORKSPACE_COMMANDS,
    *cluster_specs.CLUSTER_COMMANDS,
    *cluster_specs.EXPERIMENT_COMMANDS,
    *job_specs.COMMANDS,
    *_SHORT_COMMANDS,
    CommandSpec(
        "list-usages",
        "Show how much of each quota is used.",
        "handlers.workspace_commands:list_usages",
        (o.LOCATION,),
    ),
    CommandSpec(
        "metrics read",
        "Read the metrics in log files.",
        "handlers.metrics_commands:read",
        (_LOGS, _TIDY, _METRIC),
        outputs=(*OUTPUTS, "csv"),
    ),
    CommandSpec(
        "notify test",
        "Send a test notification from this machine.",
        "handlers.run_record_commands:test",
        (o.NOTIFY,),
    ),
    CommandSpec(
        "metrics plot",
        "Draw the metrics in log files.",
        "handlers.metrics_commands:plot",
        (_LOGS, _PICTURE, _METRIC),
    ),
    CommandSpec(
        "compare",
        "Compare jobs or logs side by side.",
        "handlers.comparison_commands:compare",
        (*_SIDE_BY_SIDE, _OVER),
        outputs=(*OUTPUTS, "csv"),
    ),
    CommandSpec(
        "diff",
        "Compare two jobs, as `job diff` does.",
        "handlers.run_record_commands:diff",
        job_specs.DIFF_OPTIONS,
    ),
    CommandSpec(
        "scaling",
        "Show how the speed of jobs or logs grows with their processes.",
        "handlers.comparison_commands:scaling",
        (*_SIDE_BY_SIDE, _RATE),
        outputs=(*OUTPUTS, "csv"),
    ),
    CommandSpec(
        "use",
        "Choose workspace, experiment, cluster and backend for this session.",
        "handlers.backend_commands:use",
        (o.GROUP, o.WORKSPACE, o.EXPERIMENT, o.CLUSTER, _BACKEND, _ENDPOINT, _SSH),
    ),
    CommandSpec(
        "clean",
        "Remove all jobs, clusters, shares and state on this machine, or only runs above a certain age.",
        "handlers.backend_commands:clean",
        (_OLDER_THAN, _KEEP_TAGGED, o.YES),
        is_confirmed=True,
        preview="handlers.backend_commands:preview",
    ),
    *session_specs.COMMANDS,
    *storage_specs.COMMANDS,
)
