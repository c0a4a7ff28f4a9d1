"""`batchai run`: runs a script, with the files of the working directory, as a job."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from batchai_magics.backends.base.backend_registry import load_settings
from batchai_magics.cell import CellRequest, Notebook, parse
from batchai_magics.cell.cell_options import cell_options
from batchai_magics.cell.launcher_line import is_launcher, unknown_launcher
from batchai_magics.cell.launchers import NAMES as LAUNCHERS
from batchai_magics.cell.sweep_options import SWEEP_FLAGS
from batchai_magics.commands.command_context import Context
from batchai_magics.commands.handlers.job_commands import resume_command
from batchai_magics.commands.handlers.job_wait import watch_job
from batchai_magics.commands.handlers.launched_request import launched_request
from batchai_magics.commands.output.command_progress import (
    CommandExit,
    LogOutput,
    Message,
    Stream,
    StreamParts,
)
from batchai_magics.errors import BatchAIError, UsageError, did_you_mean, translate_file_errors
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.latest_metrics import LogEnds
from batchai_magics.jobs.submit import submit
from batchai_magics.models.backend_options import BackendOption, declared_by
from batchai_magics.models.job_execution import ERR, OUT
from batchai_magics.options.option import DisplayText, Option, ValueKind, option_lines

_MODULE = Option(("-m", "--module"), "run this module of the working directory, as python -m does", "MODULE")
_DETACH = Option(("--detach", "-d"), "return as soon as the job is submitted", value_kind=ValueKind.NOTHING)
_SPEC = Option(("--spec",), "run this job.json instead of a script", "FILE")
_FORMAT = Option(("-o",), "print the ended job as JSON; its log goes to stderr", "json", choices=("json",))
_DEBUG = Option(("--debug",), "show the traceback of an error", value_kind=ValueKind.NOTHING)
_OF_COMMAND = ("--detach", "--help", "--debug")  # switches that are not the job's
_NOT_HERE = (  # for cells only
    *("--use", "--template", "--var", "--wait", "--spec", "--file", "--args"),
    *SWEEP_FLAGS,
)
_MISSPELT = 0.8  # how like one of our options a word must be: most are arguments of the script
_HINT = "`batchai run --help` lists the options"


@dataclass(frozen=True)
class RunLine:
    """The words of a line: options of the job, the command that follows them, and how to watch it."""

    options: tuple[str, ...]
    command: tuple[str, ...]
    spec: str = ""
    is_detached: bool = False
    is_help: bool = False
    is_json: bool = False


@dataclass(frozen=True)
class StartedRun:
    """The submitted job, what to print first, and its output until its end; no `stream` if detached.

    `is_json`: the job itself is to be printed on stdout.
    """

    note: str
    job: Job
    stream: Stream | None
    is_json: bool = False


@dataclass(frozen=True)
class PreparedRun:
    """A request that can be submitted, and what to print before that."""

    notes: tuple[str, ...]
    request: CellRequest
    context: Context
    line: RunLine

    def submit(self) -> StartedRun:
        """Submits the job."""
        submitted = submit(self.context.backend, self.request, self.context.settings)
        stream = None if self.line.is_detached else _stream(submitted.job, is_error=self.line.is_json)
        return StartedRun(submitted.note, submitted.job, stream, self.line.is_json)


def prepare(words: Sequence[str]) -> PreparedRun | DisplayText:
    """Reads a line and the files that it sends; returns text for `--help` and `--dry-run`.

    Args:
        words: The words after `batchai run`.

    Raises:
        UsageError: The line is wrong, or the working directory is too large to send along.
        SpecError: A value of the job is impossible.
    """
    settings = load_settings()
    options = run_options(declared_by(settings.sections.values()))
    line = read_line(words, options)
    if line.is_help:
        return help_text(options)
    context = Context(settings)
    with translate_file_errors():
        request, translation = _request(line, context, Path.cwd())
    notes = tuple(filter(None, (translation, *request.notes)))
    if request.is_dry_run:
        from batchai_magics.commands.output.dry_run import dry_run_text

        return DisplayText("\n".join((*notes, dry_run_text(request, settings))))
    return PreparedRun(notes, request, context, line)


def run_options(declared: Iterable[BackendOption] = ()) -> tuple[Option, ...]:
    """The options of the command: those of a cell's job, but for what only a cell has."""
    shared = (option for option in cell_options(declared) if option.flags[0] not in _NOT_HERE)
    return (_SPEC, _MODULE, _DETACH, _FORMAT, _DEBUG, *shared)


def help_text(options: Sequence[Option]) -> DisplayText:
    """The text of `batchai run --help`."""
    lines = (
        "batchai run SCRIPT [options] [-- arguments of the script]",
        "batchai run [options] -- LAUNCHER [its options] SCRIPT [arguments of the script]",
        "batchai run -m MODULE [options] [-- arguments of the module]",
        "batchai run [options] --spec job.json",
        "",
        "Runs a script, with the files of the working directory, as a distributed job and shows its output.",
        "What git or .batchaiignore ignores stays behind, and so do secrets and files above 10 MiB.",
        f"Translated are the launchers {LAUNCHERS}.",
        "Ctrl-C leaves the job running; again within three seconds, it cancels the job.",
        "The exit code is the job's.",
        "",
        *option_lines(options),
    )
    return DisplayText("\n".join(lines))


def read_line(words: Sequence[str], options: Sequence[Option]) -> RunLine:
    """Splits a line: options of the job stand before and after the script, its arguments after `--`.

    Raises:
        UsageError: A word is no option of the job; behind the script, the hint is the corrected line.
    """
    end = words.index("--") if "--" in words else len(words)
    own, after = _OwnWords(options), words[end + 1 :]
    own.read(words[:end])
    if own.stray:
        raise _stray_error(own, after)
    command = (*own.script, *after)
    return RunLine(
        tuple(own.taken),
        command,
        own.spec,
        is_detached="--detach" in own.switches,
        is_help="--help" in own.switches,
        is_json=own.is_json,
    )


class _OwnWords:
    """Reads the words before `--`: options of the job around the script.

    Attributes:
        script: The script, if one stands before `--`.
        taken: The options of the job, as `--flag=value`.
        typed: The same as they were written.
        switches: The first flags of the options without a value.
        spec: The value of `--spec`.
        is_json: Whether `-o json` is given.
        stray: The words behind the script that are no options.
    """

    def __init__(self, options: Sequence[Option]) -> None:
        self.known = {flag: option for option in options for flag in option.flags}
        self.script: tuple[str, ...] = ()
        self.taken: list[str] = []
        self.typed: list[str] = []
        self.switches: set[str] = set()
        self.spec = ""
        self.is_json = False
        self.stray: list[str] = []

    def read(self, words: Sequence[str]) -> None:
        """Reads all words; raises UsageError for an unknown option before the script and a missing value."""
        rest = list(words)
        while rest:
            word = rest.pop(0)
            flag = word.partition("=")[0]
            if word.startswith("-") and flag in self.known:
                self._take(word, rest)
            elif self.script:
                self.stray.append(word)
            elif word.startswith("-"):
                raise _unknown(flag, self.known)
            else:
                self.script = (word,)

    def _take(self, word: str, rest: list[str]) -> None:
        """Takes an option with its values, which are removed from the rest."""
        flag, sign, value = word.partition("=")
        option = self.known[flag]
        self.typed.append(word)
        if option.value_kind is ValueKind.NOTHING:
            self.switches.add(option.flags[0])
            self.taken += [] if option.flags[0] in _OF_COMMAND else [word]
            return
        values = [value] if sign else self._values(option, rest)
        if not values:
            raise UsageError(f"{flag}: expected one argument", hint=_HINT)
        self.typed += [] if sign else values
        if option is _SPEC:
            self.spec = values[-1]
        elif option is _MODULE:
            self.script = ("python", "-m", values[-1])
        elif option is _FORMAT:
            self.is_json = _checked_format(values[-1])
        else:
            self.taken += [f"{flag}={value}" for value in values]

    def _values(self, option: Option, rest: list[str]) -> list[str]:
        """The next word; behind the script, all words that follow an option with several values."""
        values = [rest.pop(0)] if rest else []
        while self.script and option.value_kind is ValueKind.MANY and rest and not rest[0].startswith("-"):
            values.append(rest.pop(0))
        return values


def _checked_format(text: str) -> bool:
    if text not in _FORMAT.choices:
        raise UsageError(f"-o {text}: expected {' or '.join(_FORMAT.choices)}", hint=_HINT)
    return True


def _stray_error(own: _OwnWords, after: Sequence[str]) -> UsageError:
    """The error for words behind the script that are no options; its hint is the line as it should be."""
    word, guess = own.stray[0], None
    is_module = len(own.script) > 1  # `-m` is among the typed words
    if not is_module and is_launcher([*own.script, *own.stray]):
        text = f"a command such as {own.script[0]} comes after --"
        parts = [*own.typed, "--", *own.script, *own.stray, *after]
    elif not is_module and PurePath(own.script[0]).suffix == "" and shutil.which(own.script[0]):
        return unknown_launcher(own.script[0])
    else:
        text = f"{word} is not an option of `batchai run`; arguments of the script come after --"
        script = () if is_module else own.script
        parts = [*script, *own.typed, "--", *own.stray, *after]
        guess = did_you_mean(word.partition("=")[0], _long_names(own.known), likeness=_MISSPELT)
    line = f"batchai run {shlex.join(parts)}"
    return UsageError(text, hint=f"{guess} Otherwise write: {line}" if guess else f"Write: {line}")


def _unknown(flag: str, known: Collection[str]) -> UsageError:
    hint = did_you_mean(flag, _long_names(known)) or f"arguments of the script come after --; {_HINT}"
    return UsageError(f"unknown option {flag}", hint=hint)


def _long_names(known: Collection[str]) -> list[str]:
    return [name for name in known if name.startswith("--")]


def _request(line: RunLine, context: Context, folder: Path) -> tuple[CellRequest, str]:
    """The request of a line, and how its launcher was translated."""
    if line.spec:
        if line.command:
            raise UsageError(f"--spec and {line.command[0]} are both given", hint="keep one of them")
        return _spec_request(line, context, folder), ""
    if not line.command:
        raise UsageError("no script was given", hint=f"For example: batchai run train.py; {_HINT}")
    return launched_request(line.command, line.options, context.settings, folder)


def _spec_request(line: RunLine, context: Context, folder: Path) -> CellRequest:
    words = (*line.options, f"--file={line.spec}")
    text = shlex.join(words).replace("{", "{{").replace("}", "}}")
    return parse(text, "", settings=context.settings, notebook=Notebook(folder=folder))


def _stream(job: Job, *, is_error: bool) -> Stream:
    again = resume_command(job.id, "logs -f")
    message = f"Stopped watching; the job keeps running. To resume: {again}"
    return Stream(_parts(job, is_error=is_error), message)


def _parts(job: Job, *, is_error: bool) -> StreamParts:
    """What happens to the job and its log, all of it for stderr if `is_error`."""
    yield Message(f"Job {job.name} was submitted.")
    for part in watch_job(job.backend, job.id, logs=(OUT, ERR)):
        if isinstance(part, CommandExit):
            yield from (Message(f"Warning: {notice}") for notice in _notices(job))
        if not (isinstance(part, Message) and part.text.startswith("Job submitted at")):
            yield replace(part, is_error=True) if is_error and isinstance(part, LogOutput) else part


def _notices(job: Job) -> tuple[str, ...]:
    """Which numbers of an ended job were not read, and what would read them."""
    try:
        return LogEnds(job.backend, job.show(), job.patterns).notices
    except BatchAIError:  # it was deleted meanwhile
        return ()
