"""`batchai run`: runs a script, or a launcher's command line, with the files of its folder, as a job."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from batchai_magics.backends.base.backend_registry import (
    default_vm_size,
    knows_gpus,
    load_settings,
    shares_folders,
)
from batchai_magics.cell import CellRequest, Notebook, ScriptFolder, parse, parse_script
from batchai_magics.cell.cell_options import SWEEP_FLAGS, cell_options
from batchai_magics.cell.cell_script import script_metadata
from batchai_magics.cell.launcher_line import LauncherLine, is_launcher, translate, unknown_launcher
from batchai_magics.cell.launchers import NAMES as LAUNCHERS
from batchai_magics.cell.launchers import JobCounts
from batchai_magics.cell.notebook_script import SUFFIX, check_modules
from batchai_magics.commands.command_context import Context
from batchai_magics.commands.handlers.job_wait import watch_job
from batchai_magics.commands.output.command_progress import (
    CommandExit,
    LogOutput,
    Message,
    Stream,
    StreamParts,
    job_stream,
    resume_command,
)
from batchai_magics.config import Settings
from batchai_magics.errors import BatchAIError, UsageError, translate_file_errors
from batchai_magics.jobs.folder_snapshot import read_module, read_script
from batchai_magics.jobs.job_model import read_model
from batchai_magics.jobs.submit import SubmittedJob, submit
from batchai_magics.models import vm_sizes
from batchai_magics.models.backend_options import BackendOption, declared_by
from batchai_magics.models.job_execution import ERR, OUT
from batchai_magics.models.resource_ids import as_name
from batchai_magics.options.job_options import flag_hint
from batchai_magics.options.option import DisplayText, Option, ValueKind, option_lines, switch
from batchai_magics.options.option_parsing import missing_value_hint
from batchai_magics.untrusted_files import read_file

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_MODULE = Option(("-m", "--module"), "run this module of the working directory, as python -m does", "MODULE")
_PARAMETER = Option(("-p", "--parameter"), "parameter of a notebook", "NAME=VALUE", is_repeatable=True)
_DETACH = switch("--detach", "-d", help="return as soon as the job is submitted")
_SPEC = Option(("--spec",), "run this job.json instead of a script", "FILE")
_FORMAT = Option(("-o",), "print the ended job as JSON; its log goes to stderr", "json", choices=("json",))
_DEBUG = switch("--debug", help="show the traceback of an error")
_COMMAND_SWITCHES = ("--detach", "--help", "--debug")  # switches that are not the job's
_CELL_ONLY = (  # for cells only
    *("--use", "--template", "--var", "--wait", "--spec", "--file", "--args"),
    *SWEEP_FLAGS,
)
_HINTS = {  # by options of cells and of sbatch
    "--wait": "`batchai run` waits for the end of the job; with --detach, it does not.",
    "--file": "Here it is --spec FILE.",
    **dict.fromkeys((*SWEEP_FLAGS, "--array"), "Sweeps are cells: %%batchai_job NAME --sweep …"),
    "--backend": "The environment chooses it: BATCHAI_BACKEND=NAME batchai run …",
}
_READS_STDIN = re.compile(r"\bstdin\b|\bfileinput\b|(?<![\w.])input\(")
_COMMAND = "batchai run"
_PROJECT = "pyproject.toml"
_HINT = f"`{_COMMAND} --help` lists the options"


@dataclass(frozen=True)
class RunLine:
    """The words of a line: options of the job, the command that follows them, and how to watch it.

    `is_json`: the ended job is printed on stdout, and its log on stderr.
    """

    options: tuple[str, ...]
    command: tuple[str, ...]
    spec: str = ""
    is_detached: bool = False
    is_help: bool = False
    is_json: bool = False


@dataclass(frozen=True)
class PreparedRun:
    """A request that can be submitted, and what to print before that."""

    notes: tuple[str, ...]
    request: CellRequest
    context: Context
    line: RunLine

    def submit(self) -> SubmittedJob:
        """Submits the job."""
        return submit(self.context.backend, self.request, self.context.settings)

    def stream(self, submitted: SubmittedJob) -> Stream:
        """The output of the job until its end."""
        parts = _parts(submitted, is_error=self.line.is_json)
        return job_stream(parts, resume_command(submitted.job.id, "logs -f"))


def prepare(words: Sequence[str]) -> PreparedRun | DisplayText:
    """Reads a line and the files that it sends; returns text for `--help` and `--dry-run`.

    Raises:
        UsageError: The line is wrong, or the working directory is too large to send along.
        SpecError: A value of the job is invalid.
    """
    settings = load_settings()
    options = run_options(declared_by(settings.sections.values()))
    line = read_line(words, options)
    if line.is_help:
        return help_text(options)
    context = Context(settings)
    with translate_file_errors():
        request, translation = _request(line, context, Path.cwd())
    notes = tuple(
        filter(None, (translation, *request.notes, *_argument_notes(request, options), _stdin_note(request)))
    )
    if request.is_dry_run:
        from batchai_magics.commands.output.dry_run import dry_run_text

        return DisplayText("\n".join((*notes, dry_run_text(request, settings))))
    return PreparedRun(notes, request, context, line)


def _argument_notes(request: CellRequest, options: Iterable[Option]) -> Iterator[str]:
    """Notes about arguments of the script that are options of the job, if none of its files mentions them."""
    source, flags = request.source, {flag for option in options for flag in option.flags if flag[:2] == "--"}
    if not (source and source.script):
        return
    words = dict.fromkeys(word.partition("=")[0] for word in shlex.split(source.arguments))
    for flag in filter(flags.__contains__, words):
        name = re.compile(flag[2:].replace("-", "[-_]").encode())
        if not any(map(name.search, request.uploads.values())):
            text = f"{flag} goes to {source.file}, which does not mention it"
            yield f"{text}; options of the job come before --"


def _stdin_note(request: CellRequest) -> str:
    """A note that a script which reads stdin does not get what is piped into the command; or empty."""
    source = request.source
    if not (source and _READS_STDIN.search(source.script) and _has_piped_input()):
        return ""
    text = f"{source.file} reads stdin, which is empty in a job"
    return f"{text}: pass its input as an argument, a variable or a file"


def _has_piped_input() -> bool:
    """Whether stdin is a pipe or a file."""
    try:
        mode = os.fstat(0).st_mode
    except OSError:  # it is closed
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)


def run_options(declared: Iterable[BackendOption] = ()) -> tuple[Option, ...]:
    """The options of the command: a cell's job options except the ones that only a cell has."""
    shared = (option for option in cell_options(tuple(declared)) if option.flags[0] not in _CELL_ONLY)
    return (_SPEC, _MODULE, _PARAMETER, _DETACH, _FORMAT, _DEBUG, *shared)


def help_text(options: Sequence[Option]) -> DisplayText:
    """The text of `batchai run --help`."""
    lines = (
        "batchai run SCRIPT [options] [-- arguments of the script]",
        "batchai run [options] -- LAUNCHER [its options] SCRIPT [arguments of the script]",
        "batchai run -m MODULE [options] [-- arguments of the module]",
        "batchai run NOTEBOOK [-p NAME=VALUE …] [options]",
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
        UsageError: A word is no option of the job; after the script, the hint is the corrected line.
    """
    end = words.index("--") if "--" in words else len(words)
    run_words, after = _RunWords(options), words[end + 1 :]
    run_words.read(words[:end])
    if run_words.stray:
        raise _stray_error(run_words, after)
    if run_words.parameters and not (run_words.script and run_words.script[0].endswith(SUFFIX)):
        raise UsageError("-p is given, and no notebook", hint="Arguments of a script come after --.")
    command = (*run_words.script, *run_words.parameters, *after)
    return RunLine(
        tuple(run_words.job_options),
        command,
        run_words.spec,
        is_detached="--detach" in run_words.switches,
        is_help="--help" in run_words.switches,
        is_json=run_words.is_json,
    )


class _RunWords:
    """Reads the words before `--`: options of the job around the script.

    Attributes:
        script: The script, if one stands before `--`.
        job_options: The options of the job, as `--flag=value`.
        typed: All options as they were written.
        switches: The first flags of the options without a value.
        spec: The value of `--spec`.
        parameters: The parameters of the notebook.
        is_json: Whether `-o json` is given.
        stray: The words after the script that are no options.
    """

    def __init__(self, options: Sequence[Option]) -> None:
        self.known = {flag: option for option in options for flag in option.flags}
        self.script: tuple[str, ...] = ()
        self.job_options: list[str] = []
        self.typed: list[str] = []
        self.switches: set[str] = set()
        self.spec = ""
        self.parameters: list[str] = []
        self.is_json = False
        self.stray: list[str] = []

    def read(self, words: Sequence[str]) -> None:
        """Reads all words; raises UsageError for an unknown option before the script and a missing value."""
        rest = list(words)
        while rest:
            word = rest.pop(0)
            flag = word.partition("=")[0]
            if word.startswith("-") and flag in self.known:
                self._read_option(word, rest)
            elif self.script:
                self.stray.append(word)
            elif word.startswith("-"):
                known = self.known.values()
                hint = _guess(flag, known) or f"arguments of the script come after --; {_HINT}"
                raise UsageError(f"unknown option {flag}", hint=hint)
            else:
                self.script = (word,)

    def _read_option(self, word: str, rest: list[str]) -> None:
        """Reads an option with its values, which are removed from `rest`."""
        flag, sign, value = word.partition("=")
        option = self.known[flag]
        self.typed.append(word)
        if option.value_kind is ValueKind.NOTHING:
            self.switches.add(option.flags[0])
            self.job_options += [] if option.flags[0] in _COMMAND_SWITCHES else [word]
            return
        values = [value] if sign else self._values(option, rest)
        if not values:
            hint = missing_value_hint(flag, rest, _HINT)
            raise UsageError(f"{flag}: expected one argument", hint=hint)
        self.typed += [] if sign else values
        if option is _SPEC:
            self.spec = values[-1]
        elif option is _MODULE:
            self.script = ("python", "-m", values[-1])
        elif option is _PARAMETER:
            if "=" not in values[-1]:
                text = f"-p {values[-1]}: a notebook takes parameters, as NAME=VALUE"
                raise UsageError(text, hint=f"Write: -p {values[-1]}=VALUE")
            self.parameters += values
        elif option is _FORMAT:
            if values[-1] not in _FORMAT.choices:
                raise UsageError(f"-o {values[-1]}: expected {' or '.join(_FORMAT.choices)}", hint=_HINT)
            self.is_json = True
        else:
            self.job_options += [f"{flag}={value}" for value in values]

    def _values(self, option: Option, rest: list[str]) -> list[str]:
        """The next word, unless it is an option; after the script, all values of an option with several."""
        values = [rest.pop(0)] if rest and rest[0].partition("=")[0] not in self.known else []
        while self.script and option.value_kind is ValueKind.MANY and rest and not rest[0].startswith("-"):
            values.append(rest.pop(0))
        return values


def _stray_error(run_words: _RunWords, after: Sequence[str]) -> UsageError:
    """The error for words after the script that are no options; its hint is the corrected line."""
    word, typed, arguments = run_words.stray[0], run_words.typed, [*run_words.stray, *after]
    script = run_words.script if len(run_words.script) == 1 else ()  # `-m MODULE` is among the typed words
    if script and is_launcher([*script, *run_words.stray]):
        line = shlex.join([*typed, "--", *script, *arguments])
        return UsageError(f"a command such as {script[0]} comes after --", hint=f"Write: batchai run {line}")
    if script and not Path(script[0]).suffix and shutil.which(script[0]):
        return unknown_launcher(script[0])
    line = shlex.join([*script, *typed, "--", *arguments])
    guess = _guess(word.partition("=")[0], run_words.known.values())
    return UsageError(
        f"{word} is not an option of `batchai run`; arguments of the script come after --",
        hint=f"{guess} Otherwise write: batchai run {line}" if guess else f"Write: batchai run {line}",
    )


def _guess(flag: str, known: Iterable[Option]) -> str:
    """A hint for an option that is not one of `batchai run`; may be empty."""
    return _HINTS.get(flag) or flag_hint(flag, known)


def _request(line: RunLine, context: Context, folder: Path) -> tuple[CellRequest, str]:
    """The request of a line, and how its launcher was translated."""
    if line.spec:
        if line.command:
            raise UsageError(f"--spec and {line.command[0]} are both given", hint="keep one of them")
        words = (*line.options, f"--file={line.spec}")
        text = shlex.join(words).replace("{", "{{").replace("}", "}}")
        notebook = Notebook(folder=folder, command=_COMMAND)
        return parse(text, "", settings=context.settings, notebook=notebook), ""
    if not line.command:
        raise UsageError("no script was given", hint=f"For example: batchai run train.py; {_HINT}")
    return launched_request(line.command, line.options, context.settings, folder)


def _parts(submitted: SubmittedJob, *, is_error: bool) -> StreamParts:
    """What happens to the job and its log, all of it for stderr if `is_error`."""
    job = submitted.job
    if submitted.is_new:
        yield Message(f"Job {job.name} was submitted.")
    for part in watch_job(job.backend, job.id, logs=(OUT, ERR)):
        if isinstance(part, CommandExit):
            notices: Sequence[str] = ()
            with contextlib.suppress(BatchAIError):  # it was deleted meanwhile
                notices = read_model(job.backend, job.show(), job.patterns).notices
            yield from (Message(f"Warning: {notice}") for notice in notices)
        if not (isinstance(part, Message) and part.text.startswith("Job submitted at")):
            yield replace(part, is_error=True) if is_error and isinstance(part, LogOutput) else part


def launched_request(
    command: Sequence[str], options: Sequence[str], settings: Settings, folder: Path
) -> tuple[CellRequest, str]:
    """The request of a command line, and how its launcher was translated.

    Raises:
        UsageError: The line cannot be translated, or the files cannot be sent.
        SpecError: A value of the job is invalid.
    """
    # the counts of the options, and the GPUs of a node as far as this machine knows them
    gpus: int | None = _number(options, "--gpus")
    if not gpus:
        is_default = not any(word.startswith("--cluster=") for word in options)
        gpus = vm_sizes.lookup(default_vm_size(settings)).gpus if is_default else 0
        gpus = gpus if gpus or (is_default and knows_gpus(settings)) else None
    counts = JobCounts(_number(options, "--nodes"), _number(options, "--processes"), gpus)
    line = translate(command, counts, folder)
    if line.is_module:
        script = read_module(line.script, folder, settings)
    else:
        script = read_script(Path(line.script), folder, settings)
    script = replace(script, rank_option=line.rank_option)
    words = (*_translated(line, options), *_interpreter(line, script, options, settings), *options)
    if script.is_notebook:
        check_modules(words, is_here=shares_folders(settings))
    parts = [part for part in script.module.split(".") if part not in ("", "__main__")]
    name = as_name(parts[-1] if parts else Path(script.name).stem)
    notebook = Notebook(folder=folder, job_name=name, command=_COMMAND)
    request = parse_script(words, line.args, script, settings=settings, notebook=notebook)
    return request, line.note


def _number(options: Sequence[str], flag: str) -> int:
    """The number that an option gives; 0 if it is missing or invalid."""
    texts = [word.partition("=")[2] for word in options if word.startswith(f"{flag}=")]
    return int(texts[-1]) if texts and texts[-1].isdecimal() else 0


def _translated(line: LauncherLine, options: Sequence[str]) -> list[str]:
    """The launcher's options as job options, before the job's own, which take precedence."""
    words = [f"{flag}={value}" for flag, value in line.options.items()]
    variables = {name: f"--env={name}={value}" for name, value in line.env.items()}
    variables |= {name: f"--env={name}" for name in line.passed}
    job_variables = {match[1] for word in options if (match := re.match(r"--(?:env|secret)=([^=]+)", word))}
    return [*words, *(word for name, word in variables.items() if name not in job_variables)]


def _interpreter(
    line: LauncherLine, script: ScriptFolder, options: Sequence[str], settings: Settings
) -> list[str]:
    """The option for the Python that the line names, by its path or with `uv run`; the job's own wins.

    Raises:
        UsageError: The nodes do not have it.
    """
    flags = {word.partition("=")[0] for word in options}
    has_metadata = (
        line.is_project and not line.is_module and script_metadata(script.code)
    )  # of PEP 723, in place of the project's
    if not (line.python or line.is_project) or "--python" in flags or has_metadata:
        return []
    where = (
        "in the image"
        if "--image" in flags
        else ""
        if shares_folders(settings)
        else f"on the nodes of {settings.backend}"
    )
    if line.python:
        if where:
            text = f"{line.python} is a Python of this machine, not {where}"
            raise UsageError(text, hint="Name one of the nodes: --python PATH.")
        return [f"--python={line.python}"]
    if where:
        text = f"uv run: the environment of the project is on this machine, not {where}"
        raise UsageError(text, hint="Leave uv run out, and name the packages: batchai run --with PACKAGE …")
    if "--with" in flags:
        raise UsageError(
            "uv run and --with are both given", hint="Leave uv run out, or add the package: uv add"
        )
    return [f"--python={project_python(script.folder)}"]


def project_python(folder: Path, env: Mapping[str, str] = os.environ) -> str:
    """The Python of the project that a folder is in, or else of the environment that is active there.

    Raises:
        UsageError: There is no such environment.
    """
    root = _uv_workspace(folder)
    if root:
        environment = root / env.get("UV_PROJECT_ENVIRONMENT", ".venv")
    elif active := env.get("VIRTUAL_ENV"):
        environment = Path(active)
    else:
        environment = next(
            (parent / ".venv" for parent in _with_parents(folder) if (parent / ".venv").is_dir()),
            folder / ".venv",
        )
    python = environment / "bin" / "python"
    if not python.exists():
        raise UsageError(f"uv run: there is no environment {environment}", hint="Make it first: uv sync")
    return str(python)


def _uv_workspace(folder: Path) -> Path | None:
    """The folder of the project, or of the workspace that it is a member of."""
    roots = [parent for parent in _with_parents(folder) if (parent / _PROJECT).is_file()]
    workspaces = (root for root in roots if "workspace" in _project(root).get("tool", {}).get("uv", {}))
    return next(workspaces, roots[0] if roots else None)


def _with_parents(folder: Path) -> Iterator[Path]:
    absolute = folder.absolute()
    yield from (absolute, *absolute.parents)


def _project(root: Path) -> Mapping[str, Any]:
    """The tables of a project's file; raises UsageError if it is invalid."""
    try:
        return tomllib.loads(read_file(root / _PROJECT).decode())
    except (OSError, ValueError) as error:
        raise UsageError(f"uv run: {_PROJECT}: {error}") from None
