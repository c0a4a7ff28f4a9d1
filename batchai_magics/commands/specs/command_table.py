"""The command table. A new command is a spec here and a handler."""

from __future__ import annotations

from collections.abc import Collection

from batchai_magics.commands.specs import cluster_specs, session_specs, storage_specs
from batchai_magics.commands.specs import shared_options as o
from batchai_magics.commands.specs.shared_options import OUTPUTS, CommandSpec, commands_in
from batchai_magics.models.resource_ids import Kind
from batchai_magics.options.job_options import job_create_options
from batchai_magics.options.option import LazyChoices, NameKind, Option, ValueKind, switch

_jobs = commands_in("handlers.job_commands")
_records = commands_in("handlers.run_record_commands")
_files = commands_in("handlers.output_file_commands")
_nodes = commands_in("handlers.node_commands")
_sweeps = commands_in("handlers.sweep_commands")
_views = commands_in("handlers.view_commands")
_metrics = commands_in("handlers.metrics_commands")
_session = commands_in("handlers.backend_commands")
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
    switch("--parameters", help="Show every parameter of the runs, not only some that differ."),
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
    _jobs(
        "job create",
        "Create a job, or a job from each of several files.",
        _CREATE,
        takes_backend_options=True,
    ),
    _jobs("job show", "Show a job.", (*_JOB, o.IDS)),
    _jobs(
        "job list",
        "List the jobs of an experiment, oldest first.",
        (*_SOME, _TOP, _TAGGED, _WHERE, *_COLUMNS),
        function="list_all",
    ),
    _records(
        "job update",
        "Change the tags and the note of a job; the tag baseline pins what others are compared with.",
        (*_JOB, o.IDS, _TAG, _UNTAG, _NOTE),
    ),
    _records(
        "job provenance",
        "Show what a job was made of: code, arguments, git state, packages, hardware.",
        (*_JOB, o.IDS),
    ),
    _records("job diff", "Compare two jobs: code, arguments, variables, packages and metrics.", _DIFF),
    _jobs(
        "job wait", "Wait for a job; ends with its exit code.", (*_JOB, o.IDS, _UNTIL, _TIMEOUT, o.INTERVAL)
    ),
    CommandSpec(
        "job resubmit",
        "Run a job again as NAME-2, or all jobs in a state.",
        "handlers.job_submission:resubmit",
        (*_PERHAPS, _STATE, _SECRET),
    ),
    _jobs("job terminate", "End a job.", (*_JOB, *_ENDING), is_confirmed=True),
    _jobs(
        "job delete",
        "Delete a job, or all jobs in a state.",
        (*_PERHAPS, _STATE, *_ENDING),
        is_confirmed=True,
    ),
    _files("job file list", "List the files of a job.", (*_FILES, o.EXPIRY), function="list_of_job"),
    _files("job file stream", "Print a job's file as it grows.", (*_FILES, _STREAMED)),
    _files(
        "job file download",
        "Copy a job's file, or all files of a folder, to this machine.",
        (*_FILES, _DOWNLOADED, _DOWNLOADED_TO),
    ),
    _nodes(
        "job node list", "List the nodes that a job runs on.", _OF_JOB, function="list_all", kind=Kind.JOB
    ),
    _nodes(
        "job node exec",
        "Run a command on a node of a job.",
        (*_OF_JOB, *o.NODE_EXEC),
        function="execute",
        kind=Kind.JOB,
    ),
    _sweeps("sweep list", "List the sweeps of an experiment.", _SOME, function="list_all"),
    _sweeps(
        "sweep show", "Show the trials of a sweep: parameters, states, metrics.", _SWEEP, outputs=_TRIALS
    ),
    _sweeps("sweep wait", "Wait until a sweep has ended, and take its steps meanwhile.", _SWEEP),
    _sweeps(
        "sweep cancel",
        "Cancel all trials of a sweep that have not ended.",
        (*_SWEEP, o.YES),
        is_confirmed=True,
    ),
)
_LOGS = Option(("FILE",), "Log files.", value_kind=ValueKind.MANY, is_required=True, completes=NameKind.PATH)
_TIDY = switch("--tidy", help="One row per number, with unit, time and place in the file.")
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
_KEEP_TAGGED = switch("--keep-tagged", help="Keep runs that have a tag.")
_NAME = Option(("NAME",), "Name of the job.", is_required=True, completes=NameKind.JOB)
_FOLLOW = switch("--follow", "-f", help="Follow the log until the job has ended.")
_OUT = switch("--out", help="Only stdout.")
_ERR = switch("--err", help="Only stderr.")
_FILE = Option(("--file",), "Another file of the job's logs.", completes=NameKind.OUTPUT)
_RANK = Option(("--rank",), "Only the output of this rank.", "NUMBER", ValueKind.NUMBER, minimum=0)
_SINCE = Option(("--since",), "Only output of the last 30s, 5m or 2h.", "TIME")
_FOR = Option(("--for",), "How long to sample its ranks: 10s, 2m.", "TIME", default="10s")
_TAIL = Option(("--tail",), "Only the last lines.", "COUNT", ValueKind.NUMBER, minimum=1)
_NAME_OR_FILE = Option(
    ("NAME",), "Name of the job, or a recording's file; by default all jobs.", completes=NameKind.JOB
)
_READ_ONLY = switch("--read-only", help="Refuse to cancel jobs or to run them again.")
_NO_BROWSER = switch("--no-browser", help="Only print the address.")
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
    _jobs(
        "show",
        "Show the state, the headline metric and the first failure of a job.",
        (*_SOME, _NAME),
        prints_summaries=True,
    ),
    _records("stacks", "Show where each rank of a running job is, and which one differs.", (*_SOME, _NAME)),
    _records(
        "profile",
        "Show where the time of each rank of a running job goes, and which one differs.",
        (*_SOME, _NAME, _FOR),
    ),
    _views(
        "open",
        "Open all jobs, the live view of one, or a recording, as a page of its own.",
        (*_SOME, _NAME_OR_FILE, _NO_BROWSER, _READ_ONLY, _HTML),
        function="open_page",
    ),
    _views("record", "Record what the live view of a job shows, until it has ended.", (*_SOME, _NAME, _TO)),
    _views(
        "bug-report",
        "Record a job with versions and settings, secrets masked, to attach to an issue.",
        (*_SOME, _NAME, _TO),
    ),
    _files("files", "List what a job wrote, results first.", (*_SOME, _NAME)),
    _files(
        "download",
        "Copy what a job wrote to this machine: all, a folder, or a file.",
        (*_SOME, _NAME, _PATH, _DEST),
        function="download_results",
    ),
    _jobs("cancel", "Cancel a job.", (*_SOME, _NAME)),
    _jobs("ps", "List queued and running jobs.", _SOME, function="active", prints_summaries=True),
    _jobs(
        "watch",
        "Show the newest jobs and the curves of their metrics live, until Ctrl-C.",
        _SOME,
        function="watched",
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
    _metrics(
        "metrics read", "Read the metrics in log files.", (_LOGS, _TIDY, _METRIC), outputs=(*OUTPUTS, "csv")
    ),
    _records("notify test", "Send a test notification from this machine.", (o.NOTIFY,)),
    _metrics("metrics plot", "Draw the metrics in log files.", (_LOGS, _PICTURE, _METRIC)),
    _metrics(
        "compare", "Compare jobs or logs side by side.", (*_SIDE_BY_SIDE, _OVER), outputs=(*OUTPUTS, "csv")
    ),
    _records("diff", "Compare two jobs, as `job diff` does.", _DIFF),
    _metrics(
        "scaling",
        "Show how the speed of jobs or logs grows with their processes.",
        (*_SIDE_BY_SIDE, _RATE),
        outputs=(*OUTPUTS, "csv"),
    ),
    _session(
        "use",
        "Choose workspace, experiment, cluster and backend for this session.",
        (o.GROUP, o.WORKSPACE, o.EXPERIMENT, o.CLUSTER, _BACKEND, _ENDPOINT, _SSH),
    ),
    _session(
        "clean",
        "Remove all jobs, clusters, shares and state on this machine, or only runs above a certain age.",
        (_OLDER_THAN, _KEEP_TAGGED, o.YES),
        is_confirmed=True,
        preview="handlers.backend_commands:preview",
    ),
    *session_specs.COMMANDS,
    *storage_specs.COMMANDS,
)
