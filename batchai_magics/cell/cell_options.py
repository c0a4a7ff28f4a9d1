"""The options of the job magic and of sweeps: one table for parser, help and completion."""

from __future__ import annotations

import keyword
import re
import shlex
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache, partial
from typing import Any, NamedTuple

from batchai_magics.cell.search_space import FORM
from batchai_magics.errors import BatchAIError, UsageError
from batchai_magics.models.backend_options import BackendOption, given_options
from batchai_magics.models.secret_masking import is_secret_name, is_secret_text
from batchai_magics.models.stop_conditions import metric_name
from batchai_magics.options.job_options import JOB_OPTIONS, JobOption, count, flag_hint, pairs, read_values
from batchai_magics.options.option import (
    Expected,
    NameKind,
    Option,
    ValueKind,
    candidates_after,
    option_lines,
    switch,
    with_declared,
)
from batchai_magics.options.option_parsing import join_dashed_values, missing_value_hint, parse_options

MAGIC = "%%batchai_job"
RUN_CELL, RUN_FUNCTION = RUNNERS = ("run_cell.py", "run_function.py")  # programs that run scripts
GRID, RANDOM, TPE, ROWS = "grid", "random", "tpe", "rows"
SEARCHES = (GRID, RANDOM, TPE)  # of --search; rows come from a variable
PRUNERS = ("median",)
_GOAL = re.compile(r"(?:(?P<word>min|max)\s+)?(?P<metric>[A-Za-z_][\w./%-]*)")


class Goal(NamedTuple):
    """What makes a trial the best: the metric, empty for the headline, and whether the greatest value wins.

    None: as the metric's name says.
    """

    metric: str = ""
    is_max: bool | None = None

    @property
    def text(self) -> str:
        """The text of `--best`; empty for the headline."""
        word = "" if self.is_max is None else ("max " if self.is_max else "min ")
        return f"{word}{self.metric}" if self.metric else ""


HEADLINE = Goal()


@dataclass(frozen=True)
class SweepOptions:
    """The options of a sweep. None: not given."""

    space: str = ""  # the parameters, or the name of a variable with rows; empty: seeds alone
    seeds: int = 0  # how often each trial runs, with a seed of its own; 0: once, without one
    trials: int | None = None
    seed: int = 0
    search: str = ""
    parallel: int = 0  # trials at once; 0: as many as there are nodes for
    goal: Goal = HEADLINE
    retries: int = 0
    prune: str = ""


def _goal(option: str, text: str) -> Goal:
    """The goal of `--best "min val_loss"` or `--best accuracy`; raises UsageError if it is neither."""
    match = _GOAL.fullmatch(text.strip())
    if not match:
        raise UsageError(f'{option} {text}: write it as "min val_loss", "max accuracy" or accuracy')
    word = match["word"]
    return Goal(metric_name(match["metric"]), None if word is None else word == "max")


def _seed(option: str, text: str) -> int:
    """The number of `--seed`; raises UsageError for anything but a whole number."""
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise UsageError(f"{option} {text}: expected a whole number of at least 0")
    return int(text)


_SPACE = (
    JobOption(("--sweep",), "run a job for each of these values: \"lr=1e-4,1e-3 batch=32,64\","
              " \"lr=log(1e-5,1e-1)\", or the rows of a DataFrame", "PARAMETERS", is_repeatable=True,
              read=lambda _, texts: " ".join(texts), field="space"),
    JobOption(("--seeds",), "run each trial, or the job, N times, with $BATCHAI_SEED from 0 to N-1", "N",
              read=count),
)  # fmt: skip
_OF_SWEEP = (
    *_SPACE,
    JobOption(("--trials",), "how many trials a random search or Optuna makes", "N", read=count),
    JobOption(("--seed",), "seed of the search (0): the same seed gives the same trials", "N", read=_seed),
    JobOption(("--search",), "how the trials are chosen (grid, or random where there are ranges)", "METHOD",
              choices=SEARCHES),
    JobOption(("--parallel",), "how many trials run at once (as many as there are nodes for)", "N",
              read=count),
    JobOption(("--best",), "what makes a trial the best: \"min val_loss\" (the headline metric)", "GOAL",
              read=_goal, field="goal"),
    JobOption(("--retry-failed",), "run a trial that fails again, up to N times", "N",
              read=count, field="retries"),
    JobOption(("--prune",), "end trials that do worse than the others did at the same step", "METHOD",
              choices=PRUNERS),
)  # fmt: skip
SWEEP_FLAGS = tuple(option.flags[0] for option in _OF_SWEEP)


def _variable(_: str, name: str) -> str:
    """The name of a Python variable; raises UsageError for any other."""
    if not name.isidentifier() or keyword.iskeyword(name):
        raise UsageError(f"--var {name}: this is not a name for a Python variable")
    return name


_OF_CELL: tuple[Option, ...] = (
    JobOption(("--spec",),
              "the cell is a job.json, as JSON or YAML", value_kind=ValueKind.NOTHING, field="is_spec"),
    JobOption(("--file",), "read this job.json; the cell stays empty", "FILE", completes=NameKind.PATH),
    JobOption(("--template",),
              "fill {names} in the script too", value_kind=ValueKind.NOTHING, field="is_template"),
    JobOption(("--wait",), "wait for the end of the job", value_kind=ValueKind.NOTHING, field="is_waiting"),
    *_OF_SWEEP,
    JobOption(("--new",),
              "run it again as NAME-2 if NAME exists", value_kind=ValueKind.NOTHING, field="is_new"),
    JobOption(("--grow",), "give the cluster as many nodes as the job wants, if it has fewer",
              value_kind=ValueKind.NOTHING, field="is_growing"),
    JobOption(("--same",),
              "refuse an edited cell rather than run it as NAME-2",
              value_kind=ValueKind.NOTHING, field="is_same"),
    JobOption(("--var",),
              "Python name that the job is bound to (job)", "NAME", read=_variable, field="variable"),
    switch('--help', '-h', help='show this text'),
)  # fmt: skip
OPTIONS = (*JOB_OPTIONS, *_OF_CELL)


@dataclass(frozen=True, kw_only=True)
class SubmitOptions:
    """How a job is submitted: what options say that sets nothing of its spec."""

    variable: str = "job"  # the Python name that the handle is bound to
    is_waiting: bool = False  # --wait
    is_new: bool = False  # --new
    is_same: bool = False  # --same
    is_growing: bool = False  # --grow
    is_dry_run: bool = False  # --dry-run
    has_no_provenance: bool = False  # --no-provenance
    patterns: Mapping[str, str] = field(default_factory=dict)  # --metric NAME=REGEX
    tags: tuple[str, ...] = ()  # --tag
    notify: tuple[str, ...] = field(default=(), repr=False)  # --notify: URLs, which are secrets, and commands
    exports: tuple[str, ...] = ()  # --export: targets, tensorboard=runs
    sweep: SweepOptions | None = None  # --sweep

    @property
    def of_submission(self) -> dict[str, Any]:
        """These options by name."""
        return {item.name: getattr(self, item.name) for item in fields(SubmitOptions)}


@dataclass(frozen=True)
class CellOptions(SubmitOptions):
    """The options of a magic line. None and empty mean not given."""

    name: str | None = None
    cluster: str | None = None
    properties: Mapping[str, Any] = field(default_factory=dict)  # the job's fields that options set, by path
    processes: int | None = None
    toolkit: str | None = None
    args: str | None = None
    image: str | None = None
    prep: str | None = None
    python: str | None = None  # of the ranks
    packages: tuple[str, ...] = ()  # --with
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    inputs: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)  # id → path suffix, which may be empty
    mounts: tuple[str, ...] = ()  # as written: bfs:data=datasets
    storage_account_name: str | None = None  # of the mounts
    storage_account_key: str | None = field(default=None, repr=False)
    experiment: str | None = None
    workspace: str | None = None
    uploads: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()  # names of the notebook's variables
    is_template: bool = False
    script: str = ""  # not an option: the script's file; empty for a description
    has_result: bool = False  # not an option: whether the script sets a result
    is_function: bool = False  # not an option: whether the script calls a function of the user's
    stop_if: tuple[str, ...] = ()
    backend_options: Mapping[str, str] = field(default_factory=dict)  # native options, by name
    is_spec: bool = False
    file: str | None = None

    @property
    def is_described(self) -> bool:
        """Whether the job is described by a job.json, not a script."""
        return self.is_spec or self.file is not None

    @property
    def needs_program(self) -> bool:
        """Whether a program must run the script, for its variables or its result."""
        return bool(self.uses) or self.has_result

    @property
    def program(self) -> str:
        """The file name of that program."""
        return RUN_FUNCTION if self.is_function else RUN_CELL


_JOB = Option(("JOB-NAME",), "name of the job", completes=NameKind.JOB)  # the first word


@lru_cache(maxsize=64)
def cell_options(declared: tuple[BackendOption, ...] = ()) -> tuple[Option, ...]:
    """All options, with those that backends declare."""
    native = [
        switch(option.flag, help=option.help)
        if option.is_switch
        else Option((option.flag,), option.help, option.metavar, elsewhere=option.elsewhere)
        for option in declared
    ]
    return (*JOB_OPTIONS, *with_declared(OPTIONS, native)[len(OPTIONS) :], *_OF_CELL)


class HelpRequested(BatchAIError):
    """Raised for `--help`; the message is the help text to print."""

    exit_code = 0

    def _render_traceback_(self) -> list[str]:
        return [self.message]


def read_options(
    words: Sequence[str],
    env: Mapping[str, str],
    declared: tuple[BackendOption, ...] = (),
    *,
    command: str = MAGIC,
) -> CellOptions:
    """Parses the words of the magic line.

    Raises:
        UsageError: An option is unknown, lacks its value or has an invalid one; the message names it.
        HelpRequested: `--help` was given.
    """
    options = cell_options(declared)
    words = join_dashed_values(words, options)
    refuse = partial(option_error, command=command, words=words)
    namespace, extra = parse_options((_JOB, *options), words, make_error=refuse)
    if namespace.help:
        raise HelpRequested(help_text(declared))
    if extra:
        if "--" in words:
            rest = shlex.join(words[words.index("--") + 1 :])
            text = "-- does not separate the arguments of the script on a cell's line"
            raise UsageError(text, hint=f"write: --args {shlex.quote(rest)}")
        raise _unknown(extra[0], options, command)
    values = read_values(namespace, options)
    first = namespace.job_name
    named = namespace.name
    if first and named and first != named:
        raise UsageError(f"the job has two names: {first} and {named}", hint="leave out --name")
    values["name"] = first or named
    if "env" in values:
        values["env"] = pairs("--env", _with_values(values["env"], env), form="NAME=VALUE")
    if "secrets" in values:
        values["secrets"] = secrets_named(values["secrets"], env)
    sweep = _sweep_options(namespace, values)
    return CellOptions(**values, backend_options=given_options(vars(namespace), declared), sweep=sweep)


def _sweep_options(namespace: Namespace, values: dict[str, Any]) -> SweepOptions | None:
    """The options of the sweep, which are taken out of the values; None without one."""
    options = [option for option in _OF_SWEEP if getattr(namespace, option.name) is not None]
    if not options:
        return None
    if not any(option in _SPACE for option in options):
        text = f"{options[0].flags[0]} is given without --sweep or --seeds, which it belongs to"
        raise UsageError(text, hint=FORM)
    names = [option.field or option.name for option in options]
    return SweepOptions(**{name: values.pop(name) for name in names})


def help_text(declared: tuple[BackendOption, ...] = ()) -> str:
    """The text of `--help`."""
    return "\n".join(
        [
            f"{MAGIC} NAME [options]",
            "<a Python script>",
            "",
            "Runs the cell as a distributed job; {name} on the line is replaced by the variable's value.",
            "",
            *option_lines(cell_options(declared)),
        ]
    )


def expected_in_cell(words: Sequence[str], declared: tuple[BackendOption, ...] = ()) -> Expected:
    """What may follow these words on a job cell's first line."""
    return candidates_after(words, (_JOB, *cell_options(declared)))


def option_error(message: str, *, command: str, words: Sequence[str] = ()) -> UsageError:
    """The error of an option without its value or with a wrong one, from argparse's message."""
    text = message.removeprefix("argument ")
    flag, _, problem = text.partition(": ")
    if flag == "--sweep":
        return UsageError(text, hint=FORM)
    hint = _help_hint(command)
    if problem == "expected one argument" and flag in words:
        hint = missing_value_hint(flag, words[words.index(flag) + 1 :], hint)
    return UsageError(text, hint=hint)


def _help_hint(command: str) -> str:
    return f"`{command} --help` lists the options"


def _unknown(word: str, options: Sequence[Option], command: str) -> UsageError:
    if not word.startswith("-"):
        hint = f'put texts with blanks in quotes, as in --args "--model {word}"'
        return UsageError(f"unexpected argument {word!r}: the job's name is already given", hint=hint)
    flag = word.split("=")[0]
    hint = flag_hint(flag, options) or _help_hint(command)
    return UsageError(f"unknown option {flag}", hint=hint)


def _with_values(texts: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """The texts of `--env`, with the values of names that are given alone.

    Raises:
        UsageError: There is no such variable, or it holds what looks like a secret.
    """
    for name in (text for text in texts if "=" not in text):
        if name not in env:
            message = f"--env {name}: there is no environment variable of that name"
            raise UsageError(message, hint=f"set it first, or write --env {name}=VALUE")
        if is_secret_name(name) or is_secret_text(env[name]):
            message = f"--env {name}: it looks like a secret, and would be kept with the job"
            raise UsageError(message, hint=f"write --secret {name}")
    return [text if "=" in text else f"{text}={env[text]}" for text in texts]


def secrets_named(names: Sequence[str], env: Mapping[str, str]) -> dict[str, str]:
    """The values of `--secret`, by name; raises UsageError for one that is not there, or on the line."""
    for name in names:
        if "=" in name:
            message = f"--secret {name.partition('=')[0]}: a secret's value does not belong on the line"
            hint = "set an environment variable of that name, then give the name alone"
            raise UsageError(message, hint=hint)
        if name not in env:
            message = f"--secret {name}: there is no environment variable of that name"
            in_notebook = f"import os, getpass; os.environ[{name!r}] = getpass.getpass()"
            hint = f"set it first, in a shell: export {name}=…, or in a notebook: {in_notebook}"
            raise UsageError(message, hint=hint)
    return {name: env[name] for name in names}


def is_sweep(line: str) -> bool:
    """Whether a magic line describes a sweep."""
    return any(word.partition("=")[0] in ("--sweep", "--seeds") for word in words_of(line))


def words_of(line: str) -> list[str]:
    """The words of a magic line; none of one with an unclosed quote, which its parser reports."""
    try:
        return shlex.split(line)
    except ValueError:
        return []
