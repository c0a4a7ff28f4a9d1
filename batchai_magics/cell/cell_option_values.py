"""Converts the options of the magic line to values, each validated on its own."""

from __future__ import annotations

import keyword
import re
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from batchai_magics.cell.notebook_variables import variable_names
from batchai_magics.cell.sweep_options import SweepOptions, sweep_options_of
from batchai_magics.config import DEFAULT_GRACE
from batchai_magics.errors import UsageError
from batchai_magics.models.backend_options import BackendOption, given_options
from batchai_magics.models.runs.labels import check_tags
from batchai_magics.models.runs.notifications import channels
from batchai_magics.models.runs.scalar_export import export_targets
from batchai_magics.models.secret_masking import is_secret_name, is_secret_text
from batchai_magics.models.stop_conditions import conditions_of
from batchai_magics.models.wire_times import duration
from batchai_magics.options.regular_expressions import compile_number

RUN_CELL, RUN_FUNCTION = RUNNERS = ("run_cell.py", "run_function.py")  # programs that run scripts

# Options whose text is their value.
_TEXTS = (
    *("name", "cluster", "args", "image", "prep", "python", "experiment", "workspace", "file"),
    *("storage_account_name", "storage_account_key"),
)
_FLAGS = {
    "is_template": "template",
    "is_spec": "spec",
    "is_dry_run": "dry_run",
    "is_waiting": "wait",
    "is_new": "new",
    "is_same": "same",
    "is_growing": "grow",
    "has_no_provenance": "no_provenance",
}
_SHORT_TIME = re.compile(r"(?=\d)(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", re.IGNORECASE)


@dataclass(frozen=True)
class CellOptions:
    """The options of a magic line. None and empty mean not given."""

    name: str | None = None
    cluster: str | None = None
    nodes: int | None = None
    processes: int | None = None
    gpus: int | None = None  # of each node
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
    priority: str | None = None
    max_time: str | None = None  # as the API writes it: PT30M
    max_restarts: int | None = None
    signal_before: str | None = None  # as the API writes times
    grace: str | None = None  # as signal_before
    preflight: str | None = None  # stop or exclude
    experiment: str | None = None
    workspace: str | None = None
    uploads: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()  # names of the notebook's variables
    is_template: bool = False
    script: str = ""  # not an option: the script's file; empty for a description
    has_result: bool = False  # not an option: whether the script sets a result
    is_function: bool = False  # not an option: whether the script calls a function of the user's
    patterns: Mapping[str, str] = field(default_factory=dict)
    stop_if: tuple[str, ...] = ()
    notify: tuple[str, ...] = field(default=(), repr=False)  # URLs, which are secrets, and commands
    exports: tuple[str, ...] = ()  # targets: tensorboard=runs
    backend_options: Mapping[str, str] = field(default_factory=dict)  # native options, by name
    is_spec: bool = False
    file: str | None = None
    is_dry_run: bool = False
    is_waiting: bool = False
    is_new: bool = False
    is_same: bool = False
    is_growing: bool = False
    has_no_provenance: bool = False
    tags: tuple[str, ...] = ()
    variable: str = ""  # empty: the default
    sweep: SweepOptions | None = None

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


def values_of(
    given: Namespace, env: Mapping[str, str], declared: Sequence[BackendOption] = ()
) -> CellOptions:
    """Converts the texts of options; the values of secrets come from `env`.

    Raises:
        UsageError: An option has an invalid value; the message names it.
    """
    return CellOptions(
        **{name: getattr(given, name) for name in _TEXTS},
        **{field: getattr(given, name) for field, name in _FLAGS.items()},
        nodes=_count("--nodes", given.nodes),
        processes=_count("--processes", given.processes),
        gpus=_count("--gpus", given.gpus),
        toolkit=_lower(given.toolkit),
        env=_pairs("--env", _with_values(given.env, env), "NAME=VALUE"),
        secrets=_secrets(given.secret, env),
        inputs=_pairs("--input", given.input, "ID=PATH"),
        outputs=_pairs("--output", given.output, "ID or ID=SUFFIX", needs_value=False),
        mounts=tuple(given.mount or ()),
        priority=_lower(given.priority),
        max_time=short_duration("--max-time", given.max_time),
        max_restarts=_count("--requeue", given.requeue),
        signal_before=short_duration("--signal-before", given.signal_before),
        grace=short_duration("--grace", given.grace),
        preflight=_preflight(given),
        uploads=tuple(given.upload or ()),
        packages=tuple(getattr(given, "with") or ()),
        uses=variable_names(given.use or ()),
        patterns=patterns_of(given.metric),
        stop_if=conditions_of(given.stop_if),
        notify=channels_of(given.notify),
        exports=exports_of(given.export),
        backend_options=given_options(vars(given), declared),
        tags=tags_of(given.tag),
        variable=_variable(given.var),
        sweep=sweep_options_of(given, _count),
    )


def tags_of(texts: Sequence[str] | None, option: str = "--tag") -> tuple[str, ...]:
    """The tags of `--tag a,b` without duplicates; raises UsageError for one that is not a word."""
    try:
        return check_tags(tag for text in texts or () for tag in text.split(",") if tag)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None


def _lower(text: str | None) -> str | None:
    return text.lower() if text else None


def _count(option: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) < 1:
        raise UsageError(f"{option} {text}: expected a whole number of at least 1")
    return int(text)


def _pairs(option: str, texts: list[str] | None, form: str, *, needs_value: bool = True) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts or ():
        name, sign, value = text.partition("=")
        if not name or (needs_value and not sign):
            raise UsageError(f"{option} {text}: expected {form}")
        if name in pairs:
            raise UsageError(f"{option}: {name} is given twice")
        pairs[name] = value
    return pairs


def _with_values(texts: list[str] | None, env: Mapping[str, str]) -> list[str]:
    """The texts of `--env`, with the values of names that are given alone.

    Raises:
        UsageError: There is no such variable, or it holds what looks like a secret.
    """
    for name in (text for text in texts or () if "=" not in text):
        if name not in env:
            message = f"--env {name}: there is no environment variable of that name"
            raise UsageError(message, hint=f"set it first, or write --env {name}=VALUE")
        if is_secret_name(name) or is_secret_text(env[name]):
            message = f"--env {name}: it looks like a secret, and would be kept with the job"
            raise UsageError(message, hint=f"write --secret {name}")
    return [text if "=" in text else f"{text}={env[text]}" for text in texts or ()]


def _secrets(names: list[str] | None, env: Mapping[str, str]) -> dict[str, str]:
    for name in names or ():
        if "=" in name:
            message = f"--secret {name.partition('=')[0]}: a secret's value does not belong on the line"
            hint = "set an environment variable of that name, then give the name alone"
            raise UsageError(message, hint=hint)
        if name not in env:
            message = f"--secret {name}: there is no environment variable of that name"
            in_notebook = f"import os, getpass; os.environ[{name!r}] = getpass.getpass()"
            hint = f"set it first, in a shell: export {name}=…, or in a notebook: {in_notebook}"
            raise UsageError(message, hint=hint)
    return {name: env[name] for name in names or ()}


def attempt_fields(
    max_restarts: int | None, signal_before: str | None, grace: str | None, preflight: str | None
) -> dict[str, Any]:
    """The wire fields of how attempts begin and end: restarts, the warning before, the check of nodes."""
    fields = {
        "batchaiMaxRestarts": max_restarts,
        "batchaiSignalBefore": signal_before,
        "batchaiGrace": grace,
        "batchaiPreflight": preflight,
    }
    return {key: value for key, value in fields.items() if value is not None}


def attempt_fields_of(given: Namespace) -> dict[str, Any]:
    """The same from `--requeue`, `--signal-before`, `--grace`, `--check` and `--exclude-bad`."""
    signal_before = short_duration("--signal-before", given.signal_before)
    grace = short_duration("--grace", given.grace)
    return attempt_fields(_count("--requeue", given.requeue), signal_before, grace, _preflight(given))


def with_grace(body: Mapping[str, Any], setting: str) -> dict[str, Any]:
    """The fields of a job with the grace of the settings, if it has none of its own."""
    own = {} if setting == DEFAULT_GRACE else {"batchaiGrace": short_duration("setting grace", setting)}
    return {**own, **body}


def _preflight(given: Namespace) -> str | None:
    """What is done about bad nodes; None if they are not looked for."""
    return "exclude" if given.exclude_bad else "stop" if given.check else None


def short_duration(option: str, text: str | None) -> str | None:
    """Converts `30m`, `2h`, `1d12h` or an ISO 8601 duration to ISO 8601; raises UsageError for other text."""
    if text is None:
        return None
    match = _SHORT_TIME.fullmatch(text.strip())
    if match:
        days, hours, minutes, seconds = match.groups()
        clock = "".join(f"{n}{unit}" for n, unit in ((hours, "H"), (minutes, "M"), (seconds, "S")) if n)
        text = "P" + (f"{days}D" if days else "") + (f"T{clock}" if clock else "")
    return _checked(option, text, duration, "write it as 30m, 2h, 1d or PT2H")


def patterns_of(texts: list[str] | None) -> dict[str, str]:
    """The regular expressions of `--metric NAME=REGEX` by name; raises UsageError for an invalid one."""
    pairs = _pairs("--metric", texts, "NAME=REGEX")
    for name, pattern in pairs.items():
        compile_number(pattern, option=f"--metric {name}")
    return pairs


def channels_of(texts: Iterable[str] | None) -> tuple[str, ...]:
    """The addresses of `--notify`; raises UsageError, without any of them, for an invalid one."""
    try:
        return tuple(dict.fromkeys(text.strip() for text in texts or ())) if channels(texts or ()) else ()
    except ValueError as error:
        raise UsageError(f"--notify: {error}") from None


def exports_of(texts: Iterable[str] | None) -> tuple[str, ...]:
    """The targets of `--export`; raises UsageError for an invalid one."""
    try:
        return tuple(map(str, export_targets(texts or ())))
    except ValueError as error:
        raise UsageError(f"--export: {error}") from None


def _checked(option: str, text: str, check: Callable[[str], Any], hint: str) -> str:
    try:
        if check(text):
            return text
        raise ValueError("it must be longer than zero")
    except ValueError as error:
        raise UsageError(f"{option}: {error}", hint=hint) from None


def _variable(name: str | None) -> str:
    if name is None:
        return ""
    if not name.isidentifier() or keyword.iskeyword(name):
        raise UsageError(f"--var {name}: this is not a name for a Python variable")
    return name
