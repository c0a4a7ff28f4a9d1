"""The command table. A new command is a spec here and a handler."""

from __future__ import annotations

from collections.abc import Collection

from batchai_magics.commands.specs import cluster_specs, session_specs, storage_specs
from batchai_magics.commands.specs import shared_options as o
from batchai_magics.commands.specs.shared_options import OUTPUTS, CommandSpec
from batchai_magics.models.resource_ids import Kind
from batchai_magics.options.job_options import job_create_options
from batchai_magics.options.option import LazyChoices, NameKind, Option, ValueKind

_SOME = (o.GROUP, o.WORKSPACE, o.EXPERIMENT)
_JOB_GROUPS = {
    "job": "Jobs.",
    "job file": "The files that a job wrote.",
    "job node": "The nodes that a job runs on.",
    "sweep": "Sweeps: jobs that run one cell with different parameters.",
}

_STATES = ("queued", "running", "terminating", "succeeded", "failed")
_JOB = (*_SOME, o.name_option("job", NameKind.JOB))
_SWEEP = (*_SOME, o.name_option("sweep", NameKind.SWEEP))
_TRIALS = (*OUTPUTS, "csv")
_PERHAPS = (*_SOME, o.name_option("job", NameKind.JOB, is_required=False))
_OF_JOB = (*_SOME, o.JOB)
_FILES = (*_OF_JOB, o.DIRECTORY, o.PATH)
_ENDING = (o.IDS, o.NO_WAIT, o.YES)
_TOP = Option(("--top",), "Only the newest jobs, at most this many.", "COUNT", ValueKind.NUMBER, minimum=1)
_STATE = Option(
    ("--state",), "All jobs of the experiment in this state, in place of a name.", choices=_STATES
)
_TAG = Option(("--tag",), "Tag of the run, to find it by.", is_repeatable=True)
_UNTAG = Option(("--untag",), "Tag to remove.", "TAG", is_repeatable=True)
_NOTE = Option(("--note",), "Text about the run, in place of its note; empty for none.", "TEXT")
_TAGGED = Option(("--tag",), "Only runs with this tag.", is_repeatable=True)
_WHERE = Option(
    ("--where",),
    'Only runs whose parameter or metric meets this: "lr == 0.1", "loss < 0.3".',
    "CONDITION",
    is_repeatable=True,
)
_COLUMNS = (
    Option(
        ("--metric",),
        "Metric to show, in place of the headline's; several, a column each: val_loss, images/sec.",
        "NAME",
        is_repeatable=True,
    ),
    Option(
        ("--parameters",),
        "Show every parameter of the runs, not only some that differ.",
        value_kind=ValueKind.NOTHING,
    ),
)
_DIFF = (
    *_SOME,
    Option(
        ("RUN",),
        "The two jobs by name.",
        value_kind=ValueKind.MANY,
        is_required=True,
        completes=NameKind.JOB,
    ),
)
_CREATE = (
    *_SOME,
    Option(
        ("--name", "-n"),
        "Name of the job, by default its file's; of several files, NAME-1, NAME-2 and so on.",
    ),
    Option(
        ("--config-file", "-f"),
        "The job as JSON or YAML (job.json). Several files, or a pattern as jobs/*.json, make a job each.",
        value_kind=ValueKind.MANY,
        is_required=True,
        completes=NameKind.PATH,
    ),
    o.CLUSTER,
    *o.MOUNTS,
    *job_create_options(),
)
_UNTIL = Option(
    ("--until",), 'Wait for this instead of the end: "loss < 0.3", "loss < 0.3 or ended".', "CONDITION"
)
_TIMEOUT = Option(("--timeout",), "Wait at most this long: 30s, 5m, 2h; then exit code 124.", "TIME")
_SECRET = Option(
    ("--secret",), "Secret of the job, its value taken from this process.", value_kind=ValueKind.MANY
)
_STREAMED = Option(("--file-name", "-f"), "Name of the file.", is_required=True, completes=NameKind.OUTPUT)
_DOWNLOADED = Option(
    ("--file-name", "-f"), "Name of the file; all files below --path by default.", completes=NameKind.OUTPUT
)
_DOWNLOADED_TO = Option(("--dest",), "Folder to write to.", default=".", completes=NameKind.PATH)

_JOB_COMMANDS = (
    CommandSpec(
        "job create",
        "Create a job, or a job from each of several files.",
        "handlers.job_commands:create",
        _CREATE,
        takes_backend_options=True,
    ),
    CommandSpec("job show", "Show a job.", "handlers.job_commands:show", (*_JOB, o.IDS)),
    CommandSpec(
        "job list",
        "List the jobs of an experiment, oldest first.",
        "handlers.job_commands:list_all",
        (*_SOME, _TOP, _TAGGED, _WHERE, *_COLUMNS),
    ),
    CommandSpec(
        "job update",
        "Change the tags and the note of a job; the tag baseline pins what others are compared with.",
        "handlers.run_record_commands:update",
        (*_JOB, o.IDS, _TAG, _UNTAG, _NOTE),
    ),
    CommandSpec(
        "job provenance",
        "Show what a job was made of: code, arguments, git state, packages, hardware.",
        "handlers.run_record_commands:provenance",
        (*_JOB, o.IDS),
    ),
    CommandSpec(
        "job diff",
        "Compare two jobs: code, arguments, variables, packages and metrics.",
        "handlers.run_record_commands:diff",
        _DIFF,
    ),
    CommandSpec(
        "job wait",
        "Wait for a job; ends with its exit code.",
        "handlers.job_commands:wait",
        (*_JOB, o.IDS, _UNTIL, _TIMEOUT, o.INTERVAL),
    ),
    CommandSpec(
        "job resubmit",
        "Run a job again as NAME-2, or all jobs in a state.",
        "handlers.job_submission:resubmit",
        (*_PERHAPS, _STATE, _SECRET),
    ),
    CommandSpec(
        "job terminate", "End a job.", "handlers.job_commands:terminate", (*_JOB, *_ENDING), is_confirmed=True
    ),
    CommandSpec(
        "job delete",
        "Delete a job, or all jobs in a state.",
        "handlers.job_commands:delete",
        (*_PERHAPS, _STATE, *_ENDING),
        is_confirmed=True,
    ),
    CommandSpec(
        "job file list",
        "List the files of a job.",
        "handlers.output_file_commands:list_of_job",
        (*_FILES, o.EXPIRY),
    ),
    CommandSpec(
        "job file stream",
        "Print a job's file as it grows.",
        "handlers.output_file_commands:stream",
        (*_FILES, _STREAMED),
    ),
    CommandSpec(
        "job file download",
        "Copy a job's file, or all files of a folder, to this machine.",
        "handlers.output_file_commands:download",
        (*_FILES, _DOWNLOADED, _DOWNLOADED_TO),
    ),
    CommandSpec(
        "job node list",
        "List the nodes that a job runs on.",
        "handlers.node_commands:list_all",
        _OF_JOB,
        kind=Kind.JOB,
    ),
    CommandSpec(
        "job node exec",
        "Run a command on a node of a job.",
        "handlers.node_commands:execute",
        (*_OF_JOB, *o.NODE_EXEC),
        kind=Kind.JOB,
    ),
    CommandSpec("sweep list", "List the sweeps of an experiment.", "handlers.sweep_commands:list_all", _SOME),
    CommandSpec(
        "sweep show",
        "Show the trials of a sweep: parameters, states, metrics.",
        "handlers.sweep_commands:show",
        _SWEEP,
        outputs=_TRIALS,
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
_SIDE_BY_SIDE = (*_SOME, _RUNS, _PLOT)


_OLDER_THAN = Option(("--older-than",), "Only runs that ended at least this long ago: 12h, 30d, 8w.", "AGE")
_KEEP_TAGGED = Option(("--keep-tagged",), "Keep runs that have a tag.", value_kind=ValueKind.NOTHING)
_NAME = Option(("NAME",), "Name of the job.", is_required=True, completes=NameKind.JOB)
_FOLLOW = Option(("--follow", "-f"), "Follow the log until the job has ended.", value_kind=ValueKind.NOTHING)
_OUT = Option(("--out",), "Only stdout.", value_kind=ValueKind.NOTHING)
_ERR = Option(("--err",), "Only stderr.", value_kind=ValueKind.NOTHING)
_FILE = Option(("--file",), "Another file of the job's logs.", completes=NameKind.OUTPUT)
_RANK = Option(("--rank",), "Only the output of this rank.", "NUMBER", ValueKind.NUMBER, minimum=0)
_SINCE = Option(("--since",), "Only output of the last 30s, 5m or 2h.", "TIME")
_FOR = Option(("--for",), "How long to sample its ranks: 10s, 2m.", "TIME", default="10s")
_TAIL = Option(("--tail",), "Only the last lines.", "COUNT", ValueKind.NUMBER, minimum=1)
_NAME_OR_FILE = Option(
    ("NAME",), "Name of the job, or a recording's file; by default all jobs.", completes=NameKind.JOB
)
_READ_ONLY = Option(
    ("--read-only",), "Refuse to cancel jobs or to run them again.", value_kind=ValueKind.NOTHING
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
        "profile",
        "Show where the time of each rank of a running job goes, and which one differs.",
        "handlers.run_record_commands:profile",
        (*_SOME, _NAME, _FOR),
    ),
    CommandSpec(
        "open",
        "Open all jobs, the live view of one, or a recording, as a page of its own.",
        "handlers.view_commands:open_page",
        (*_SOME, _NAME_OR_FILE, _NO_BROWSER, _READ_ONLY, _HTML),
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
        "files",
        "List what a job wrote, results first.",
        "handlers.output_file_commands:files",
        (*_SOME, _NAME),
    ),
    CommandSpec(
        "download",
        "Copy what a job wrote to this machine: all, a folder, or a file.",
        "handlers.output_file_commands:download_results",
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
        "Show the newest jobs and the curves of their metrics live, until Ctrl-C.",
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

GROUPS = {
    "": "Distributed training jobs, in the words of Azure Batch AI.",
    "metrics": "Metrics in training logs.",
    "notify": "Notifications of jobs.",
    **cluster_specs.WORKSPACE_GROUPS,
    **cluster_specs.CLUSTER_GROUPS,
    **_JOB_GROUPS,
    **session_specs.GROUPS,
    **storage_specs.GROUPS,
}

COMMANDS = (
    *cluster_specs.WORKSPACE_COMMANDS,
    *cluster_specs.CLUSTER_COMMANDS,
    *cluster_specs.EXPERIMENT_COMMANDS,
    *_JOB_COMMANDS,
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
        "handlers.metrics_commands:compare",
        (*_SIDE_BY_SIDE, _OVER),
        outputs=(*OUTPUTS, "csv"),
    ),
    CommandSpec(
        "diff",
        "Compare two jobs, as `job diff` does.",
        "handlers.run_record_commands:diff",
        _DIFF,
    ),
    CommandSpec(
        "scaling",
        "Show how the speed of jobs or logs grows with their processes.",
        "handlers.metrics_commands:scaling",
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
