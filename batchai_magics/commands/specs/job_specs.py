"""Command specs of `job …` and `sweep …`."""

from __future__ import annotations

from batchai_magics.commands.specs import shared_options as o
from batchai_magics.commands.specs.shared_options import OUTPUTS, CommandSpec
from batchai_magics.options.job_options import job_create_options
from batchai_magics.options.option import NameKind, Option, ValueKind

GROUPS = {
    "job": "Jobs.",
    "job file": "The files that a job wrote.",
    "job node": "The nodes that a job runs on.",
    "sweep": "Sweeps: jobs that run one cell with different parameters.",
}

_STATES = ("queued", "running", "terminating", "succeeded", "failed")
_SOME = (o.GROUP, o.WORKSPACE, o.EXPERIMENT)
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
DIFF_OPTIONS = (
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
_DEST = Option(("--dest",), "Folder to write to.", default=".", completes=NameKind.PATH)

COMMANDS = (
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
        DIFF_OPTIONS,
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
        (*_FILES, _DOWNLOADED, _DEST),
    ),
    CommandSpec(
        "job node list", "List the nodes that a job runs on.", "handlers.node_commands:list_of_job", _OF_JOB
    ),
    CommandSpec(
        "job node exec",
        "Run a command on a node of a job.",
        "handlers.node_commands:execute_on_job",
        (*_OF_JOB, *o.NODE_EXEC),
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
