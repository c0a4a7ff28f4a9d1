"""The options of the job magic: one table that the parser, the help text and completion are made from."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from batchai_magics.errors import BatchAIError, UsageError, did_you_mean

MAGIC = "%%batchai_job"
TOOLKITS = ("horovod", "mpi", "pytorch", "tensorflow", "cntk", "caffe", "caffe2", "chainer", "custom")
PRIORITIES = ("low", "normal", "high")


@dataclass(frozen=True)
class Option:
    """One option.

    `metavar` is empty for a switch. `is_repeatable`: may be given more than once; `takes_many`: takes several
    words at once. `completes` says what its value is, for completion: `cluster`, `file`, `python`, … (empty:
    free text). `is_later`: it is understood, but not available in this version.
    """

    name: str
    help: str
    metavar: str = ""
    choices: tuple[str, ...] = ()
    is_repeatable: bool = False
    takes_many: bool = False
    completes: str = ""
    is_later: bool = False

    @property
    def key(self) -> str:
        """Its name in the parsed result: `max_time`."""
        return self.name.removeprefix("--").replace("-", "_")


OPTIONS: tuple[Option, ...] = (
    Option("--name", "name of the job, in place of the first word", "NAME", completes="job"),
    Option("--cluster", "cluster to run on: a name or a full id", "CLUSTER", completes="cluster"),
    Option("--nodes", "number of nodes (1)", "N"),
    Option("--processes", "number of processes over all nodes (one for each node or GPU)", "N"),
    Option("--toolkit", "how the processes are started (horovod)", "KIND", TOOLKITS),
    Option("--args", "arguments for the script, as one text", "TEXT"),
    Option("--image", "container image to run in", "IMAGE"),
    Option("--prep", "command run on every node before the job", "COMMAND"),
    Option("--env", "environment variable of the job", "NAME=VALUE", is_repeatable=True),
    Option("--secret", "variable of the job, its value taken from this process and shown nowhere", "NAME",
           is_repeatable=True, completes="environment"),
    Option("--input", "folder to read: $AZ_BATCHAI_INPUT_<ID> of the job", "ID=PATH", is_repeatable=True),
    Option("--output", "folder to write: $AZ_BATCHAI_OUTPUT_<ID> of the job", "ID[=SUFFIX]",
           is_repeatable=True),
    Option("--mount", "share, container or file server to mount below $AZ_BATCHAI_JOB_MOUNT_ROOT",
           "[KIND:]NAME[=PATH]", is_repeatable=True),
    Option("--priority", "place in the queue (normal)", "LEVEL", PRIORITIES),
    Option("--max-time", "longest time to run: 30m, 2h, 1d or PT2H (7 days)", "TIME"),
    Option("--experiment", "experiment that the job belongs to", "NAME", completes="experiment"),
    Option("--workspace", "workspace that the job belongs to", "NAME", completes="workspace"),
    Option("--upload", "files to put beside the script", "FILE", is_repeatable=True, takes_many=True,
           completes="file"),
    Option("--use", "variables of the notebook to ship", "VAR", is_repeatable=True, takes_many=True,
           completes="python", is_later=True),
    Option("--metric", "a number to read from the log", "NAME=REGEX", is_repeatable=True),
    Option("--stop-if", "condition that ends the job", "CONDITION", is_repeatable=True, is_later=True),
    Option("--spec", "the cell is a job.json, as JSON or YAML"),
    Option("--file", "read this job.json; the cell stays empty", "FILE", completes="file"),
    Option("--template", "fill {names} in the script too", is_later=True),
    Option("--dry-run", "show what would be submitted; nothing is written"),
    Option("--wait", "wait for the end of the job"),
    Option("--new", "run it again, as NAME-2, when NAME is there"),
    Option("--var", "Python name that the job is bound to (job)", "NAME", completes="python"),
    Option("--help", "show this text"),
)  # fmt: skip


_NAMES = tuple(option.name for option in OPTIONS)
_SINGLE = tuple(option.name for option in OPTIONS if option.metavar and not option.takes_many)


class HelpRequested(BatchAIError):
    """`--help` was given: the message is the help text, to be printed. Nothing is wrong."""

    exit_code = 0

    def _render_traceback_(self) -> list[str]:
        return [self.message]


def read_options(words: Sequence[str]) -> dict[str, Any]:
    """What the words of the magic line give, as text, by option key; `name` is the job's name or None.

    Repeatable options give lists, switches booleans, what is not given None. Raises UsageError naming the
    option, HelpRequested for `--help`.
    """
    parsed, extra = _parser().parse_known_args(_join_values(words))
    if parsed.help:
        raise HelpRequested(help_text())
    if extra:
        raise _unknown(extra)
    given = vars(parsed)
    for option in OPTIONS:
        _check(option, given[option.key])
    given["name"] = _one_name(given.pop("job_name"), given["name"])
    return given


def help_text() -> str:
    """The options with what they mean, as shown by `--help`."""
    rows = [
        (_usage(option), option.help + (" (later version)" if option.is_later else "")) for option in OPTIONS
    ]
    width = max(len(usage) for usage, _ in rows)
    lines = [f"  {usage:<{width}}  {help}" for usage, help in rows]
    return "\n".join(
        [
            f"{MAGIC} NAME [options]",
            "<a Python script>",
            "",
            "Runs the cell as a distributed job; {name} on the line is replaced by the variable's value.",
            "",
            *lines,
        ]
    )


class _Parser(argparse.ArgumentParser):
    """argparse that raises our error in place of ending the process."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message.removeprefix("argument "), hint=f"`{MAGIC} --help` lists the options")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog=MAGIC, add_help=False, allow_abbrev=False)
    parser.add_argument("job_name", nargs="?")
    for option in OPTIONS:
        names = [option.name, "-h"] if option.name == "--help" else [option.name]
        if not option.metavar:
            parser.add_argument(*names, action="store_true", dest=option.key)
            continue
        action = "extend" if option.takes_many else "append" if option.is_repeatable else "store"
        nargs = "+" if option.takes_many else None
        parser.add_argument(*names, action=action, nargs=nargs, metavar=option.metavar, dest=option.key)
    return parser


def _join_values(words: Sequence[str]) -> list[str]:
    """`--args --verbose` as `--args=--verbose`: a value may begin with a dash, but for an option's name."""
    joined: list[str] = []
    for word in words:
        if joined and joined[-1] in _SINGLE and word.split("=")[0] not in _NAMES:
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def _check(option: Option, value: Any) -> None:
    if value in (None, False):
        return
    if option.is_later:
        raise UsageError(f"{option.name} is not available in this version", hint=f"it will be: {option.help}")
    if option.choices and str(value).lower() not in option.choices:
        hint = did_you_mean(str(value), option.choices) or f"one of {', '.join(option.choices)}"
        raise UsageError(f"{option.name}: there is no {value!r}", hint=hint)


def _unknown(extra: Iterable[str]) -> UsageError:
    word = next(iter(extra))
    if not word.startswith("-"):
        hint = f'put texts with blanks in quotes, as in --args "--model {word}"'
        return UsageError(f"{word!r} is one word too many: the job's name is given already", hint=hint)
    hint = did_you_mean(word.split("=")[0], _NAMES) or f"`{MAGIC} --help` lists the options"
    return UsageError(f"there is no option {word.split('=')[0]}", hint=hint)


def _one_name(first: str | None, named: str | None) -> str | None:
    if first and named and first != named:
        raise UsageError(f"the job has two names: {first} and {named}", hint="leave out --name")
    return first or named


def _usage(option: Option) -> str:
    many = " …" if option.takes_many or option.is_repeatable else ""
    return f"{option.name} {option.metavar}{many}".rstrip()
