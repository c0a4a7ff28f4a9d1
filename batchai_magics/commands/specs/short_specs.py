"""Command specs of the short commands for jobs, which take the name as a word: `logs resnet -f`."""

from __future__ import annotations

from batchai_magics.commands.specs import shared_options as o
from batchai_magics.commands.specs.shared_options import CommandSpec
from batchai_magics.options.option import NameKind, Option, ValueKind

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

COMMANDS = (
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
    CommandSpec("cancel", "Cancel a job.", "handlers.short_commands:cancel", (*_SOME, _NAME)),
    CommandSpec(
        "ps",
        "List queued and running jobs.",
        "handlers.short_commands:active",
        _SOME,
        prints_summaries=True,
    ),
    CommandSpec(
        "watch",
        "Show the newest jobs live, until Ctrl-C.",
        "handlers.short_commands:watched",
        _SOME,
        prints_summaries=True,
    ),
)
