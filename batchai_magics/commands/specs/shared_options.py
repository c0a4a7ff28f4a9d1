"""The spec of a command, options shared by several, and the commands that every kind of resource has."""

from __future__ import annotations

import enum
import functools
import importlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from batchai_magics.config import Settings
from batchai_magics.models.resource_ids import Kind
from batchai_magics.options.option import NameKind, Option, ValueKind, in_section, switch, with_declared

OUTPUTS = ("json", "jsonc", "none", "table", "tsv", "yaml")
PROGRAM = "batchai"


class BucketKind(enum.Enum):
    """The kinds of bucket in a storage account, as commands spell them."""

    SHARE = "share"
    CONTAINER = "container"


@dataclass(frozen=True)
class CommandSpec:
    """One command. `handler` is `module:function` below `commands`, imported when the command runs.

    `preview` is the same for a function that returns what the command would do, to show before confirmation.
    A handler that serves several kinds of resources or buckets takes the `kind` too.
    """

    words: str
    summary: str
    handler: str
    options: tuple[Option, ...] = ()
    is_confirmed: bool = False  # asks for confirmation
    outputs: tuple[str, ...] = OUTPUTS
    preview: str = ""
    is_hidden: bool = False  # from help: it is accepted because lines of `az` have it, and does nothing
    takes_backend_options: bool = False  # besides `options`, those that backends declare
    prints_summaries: bool = False  # of jobs with `-o`, except as a line of `az`
    kind: Kind | BucketKind | None = None

    @property
    def parts(self) -> tuple[str, ...]:
        """The words of the command, split."""
        return tuple(self.words.split())

    def load(self) -> Callable[..., Any]:
        """Imports the handler, which takes a Context and the parsed arguments."""
        handler = _import_function(self.handler)
        return functools.partial(handler, kind=self.kind) if self.kind else handler

    def load_preview(self) -> Callable[..., Any] | None:
        """Imports the preview function, called with the same arguments; None for a command without one."""
        return _import_function(self.preview) if self.preview else None


def commands_in(module: str, noun: str = "") -> Callable[..., CommandSpec]:
    """Makes commands whose handlers are in a module below `commands`.

    The handler is the function that `function` names, by default the command's last word before the noun:
    `delete_folder`.
    """

    def make(
        words: str, summary: str, options: tuple[Option, ...] = (), *, function: str = "", **more: Any
    ) -> CommandSpec:
        name = function or "_".join(filter(None, (words.split()[-1].replace("-", "_"), noun)))
        return CommandSpec(words, summary, f"{module}:{name}", options, **more)

    return make


def _import_function(path: str) -> Callable[..., Any]:
    module, name = path.split(":")
    function: Callable[..., Any] = getattr(importlib.import_module(f"batchai_magics.commands.{module}"), name)
    return function


def command_path(words: Sequence[str], commands: Iterable[CommandSpec]) -> tuple[str, ...]:
    """The leading words that form the path of a group or command: `job show` of `job show -n x`."""
    known = {command.parts[:count] for command in commands for count in range(len(command.parts) + 1)}
    count = 0
    while count < len(words) and tuple(words[: count + 1]) in known:
        count += 1
    return tuple(words[:count])


def subcommands(path: Sequence[str], commands: Iterable[CommandSpec]) -> tuple[str, ...]:
    """The next words of all commands below `path`, in the order of the table."""
    depth = len(path)
    inside = [c.parts for c in commands if c.parts[:depth] == tuple(path) and len(c.parts) > depth]
    return tuple(dict.fromkeys(parts[depth] for parts in inside))


GROUP = Option(
    ("--resource-group", "-g"),
    "Name of the resource group; by default the one of `configure --defaults group=NAME`.",
    completes=NameKind.GROUP,
)
LOCATION = Option(("--location", "-l"), "Location, such as eastus.")
WORKSPACE = Option(
    ("--workspace", "-w"),
    "Name of the workspace; by default the configured one.",
    completes=NameKind.WORKSPACE,
)
EXPERIMENT = Option(
    ("--experiment", "-e"),
    "Name of the experiment; by default the configured one.",
    completes=NameKind.EXPERIMENT,
)
CLUSTER = Option(("--cluster", "-c"), "Name or ARM id of the cluster.", completes=NameKind.CLUSTER)
JOB = Option(("--job", "-j"), "Name of the job.", is_required=True, completes=NameKind.JOB)
IDS = Option(
    ("--ids",),
    "One or more resource ids, in place of the names.",
    value_kind=ValueKind.MANY,
    section="Resource Id Arguments",
)
NO_WAIT = switch("--no-wait", help="Do not wait for the operation to finish.")
YES = switch("--yes", "-y", help="Do not ask for confirmation.")
DIRECTORY = Option(
    ("--output-directory-id", "-d"),
    "Id of the job's output directory; stdouterr, workdir, artifacts, checkpoints or its own.",
    default="stdouterr",
)
PATH = Option(("--path", "-p"), "Relative path in the directory.", default=".")
EXPIRY = Option(
    ("--expiry",),
    "Minutes that download links stay valid; those of this machine (file://) stay as long as the file.",
    value_kind=ValueKind.NUMBER,
    default=60,
    minimum=1,
)
INTERVAL = Option(("--interval",), "Accepted; changes show at once.", value_kind=ValueKind.NUMBER, default=15)

MOUNTS = (
    *in_section(
        "Azure Storage Mount Arguments",
        Option(
            ("--storage-account-name",),
            "Storage account of the share or container.",
            completes=NameKind.ACCOUNT,
        ),
        Option(("--storage-account-key",), "Key of that storage account."),
        Option(("--afs-name",), "Name of a file share to mount."),
        Option(("--afs-mount-path",), "Where to mount it, below the mount root.", default="afs"),
        Option(("--bfs-name",), "Name of a blob container to mount."),
        Option(("--bfs-mount-path",), "Where to mount it, below the mount root.", default="bfs"),
    ),
    *in_section(
        "File Server Mount Arguments",
        Option(("--nfs",), "Name or ARM id of a file server to mount.", completes=NameKind.FILE_SERVER),
        Option(("--nfs-mount-path",), "Where to mount it.", default="nfs"),
    ),
)
ADMIN = in_section(
    "Admin Account Arguments",
    Option(("--user-name", "-u"), "Administrator's user name; yours by default."),
    Option(("--ssh-key", "-k"), "SSH public key, or a file that holds it.", completes=NameKind.PATH),
    switch("--generate-ssh-keys", help="Make ~/.ssh/id_rsa and id_rsa.pub if they are missing."),
    Option(("--password", "-p"), "Administrator's password."),
)
SUBNET = Option(("--subnet",), "ARM id of a subnet; accepted.", section="Virtual Network Arguments")

NODE_EXEC = (
    Option(("--exec",), "Command to run on the node."),
    Option(("--node-id", "-n"), "Id of the node; any node by default.", completes=NameKind.NODE),
    Option(
        ("--address", "-L"),
        "Ports to forward, as PORT:HOST:PORT of the node.",
        value_kind=ValueKind.MANY,
    ),
    Option(("--password", "-p"), "Accepted; nobody logs in to a node of this machine."),
    Option(("--ssh-private-key", "-k"), "Accepted, as the password is.", completes=NameKind.PATH),
)

ACCESS = (
    Option(
        ("--account-name",),
        "Storage account; AZURE_STORAGE_ACCOUNT, or the one of this machine, by default.",
        completes=NameKind.ACCOUNT,
    ),
    Option(("--account-key",), "Key of that account; accepted."),
    Option(("--sas-token",), "Accepted."),
    Option(("--connection-string",), "Names the account by its AccountName."),
)

HELP = switch("--help", "-h", help="Show this help.")
_GLOBAL = (
    Option(("--query",), "JMESPath query on the result."),
    Option(("--subscription",), "Id of the subscription."),
    switch("--debug", help="Show tracebacks."),
    switch("--verbose", help="Accepted."),
    HELP,
)


def name_option(noun: str, live: NameKind, *, is_required: bool = True) -> Option:
    """The `--name/-n` option of a command for one `noun`."""
    return Option(("--name", "-n"), f"Name of the {noun}.", is_required=is_required, completes=live)


def share_option(*flags: str) -> Option:
    """An option that names a file share."""
    return Option(flags, "Name of the file share.", is_required=True, completes=NameKind.SHARE)


def container_option(*flags: str) -> Option:
    """An option that names a blob container."""
    return Option(flags, "Name of the container.", is_required=True, completes=NameKind.CONTAINER)


def path_option(flags: tuple[str, ...], help: str, *, is_required: bool = True) -> Option:
    """An option that takes a local path."""
    return Option(flags, help, is_required=is_required, completes=NameKind.PATH)


def required(option: Option) -> Option:
    """The same option, required."""
    return replace(option, is_required=True)


def standard_commands(
    kind: Kind,
    *,
    one: tuple[Option, ...],
    several: tuple[Option, ...],
    show: CommandSpec | None = None,
    list_all: CommandSpec | None = None,
) -> tuple[CommandSpec, ...]:
    """`show`, `list` and `delete` of a kind of resource.

    `one` are the options that identify one resource, `several` its parent; `show` and `list_all` are commands
    in place of the standard ones.
    """
    noun, words = kind.noun, kind.noun.replace(" ", "-")
    a_noun = kind.with_article
    make = functools.partial(commands_in("handlers.resource_commands"), kind=kind)
    return (
        show or make(f"{words} show", f"Show {a_noun}.", (*one, IDS)),
        list_all or make(f"{words} list", f"List {noun}s.", several, function="list_all"),
        make(f"{words} delete", f"Delete {a_noun}.", (*one, IDS, NO_WAIT, YES), is_confirmed=True),
    )


def options_of(command: CommandSpec, settings: Settings | None = None) -> tuple[Option, ...]:
    """A command's options followed by the global ones; its own flags hide global flags of the same name.

    Options of backends are those that the settings know, by default those of this process.
    """
    options = command.options
    if command.takes_backend_options:
        from batchai_magics.backends.base.backend_registry import backend_options

        native = (
            Option((option.flag,), f"{option.help[0].upper()}{option.help[1:]}.", option.metavar)
            for option in backend_options(settings)
        )
        options = with_declared(options, native)
    used_flags = {flag for option in options for flag in option.flags}
    output = Option(("--output", "-o"), "Output format, in place of text.", choices=command.outputs)
    for option in in_section("Global Arguments", output, *_GLOBAL):
        if flags := tuple(flag for flag in option.flags if flag not in used_flags):
            options = (*options, replace(option, flags=flags))
    return options


NOTIFY = Option(
    ("--notify",),
    "Notify when the job ends: a webhook, an apprise URL, or a command.",
    "URL|COMMAND",
    is_repeatable=True,
)
