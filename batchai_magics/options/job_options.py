"""The options of a job, one declaration each: how it is written, how its value is read, what it sets.

A cell, `batchai run`, `run()` and `job create` share them. An option that `sets` a property of the job needs
nothing else here: the engine finds it in the job's spec.
"""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from batchai_magics.config import DEFAULT_GRACE
from batchai_magics.errors import UsageError, did_you_mean
from batchai_magics.models.wire_times import duration
from batchai_magics.options.option import NameKind, Option, ValueKind

TOOLKITS = ("horovod", "mpi", "pytorch", "tensorflow", "cntk", "caffe", "caffe2", "chainer", "custom")
PRIORITIES = ("low", "normal", "high")
MISSPELT = 0.75  # least similarity of a flag to an option; others are arguments of the script
_SHORT_TIME = re.compile(r"(?=\d)(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", re.IGNORECASE)


@dataclass(frozen=True)
class JobOption(Option):
    """An option of a job.

    `read`: converts the value of a flag, which is a text, a list of texts or True; raises UsageError.
    """

    read: Callable[[str, Any], Any] = lambda _, value: value
    sets: str = ""  # the property of the job that it sets, by its path: `constraints.maxWallClockTime`
    field: str = ""  # otherwise the field that has its value, by default its name


def read_values(arguments: Namespace, options: Iterable[Option]) -> dict[str, Any]:
    """The values of a line's options by field; properties of the job that they set, by path, in `properties`.

    Raises:
        UsageError: An option has an invalid value; the message names it.
    """
    values: dict[str, Any] = {}
    properties: dict[str, Any] = {}
    for option in options:
        value = getattr(arguments, option.name, None)
        if not isinstance(option, JobOption) or value is None or value is False:
            continue
        target, key = (properties, option.sets) if option.sets else (values, option.field or option.name)
        target[key] = option.read(option.flags[0], value)
    return {**values, "properties": properties}


def with_properties(body: Mapping[str, Any], properties: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a job, with the properties at these paths replaced."""
    merged = dict(body)
    for path, value in properties.items():
        key, _, rest = path.partition(".")
        inner = merged.get(key)
        inner = inner if isinstance(inner, Mapping) else {}
        merged[key] = with_properties(inner, {rest: value}) if rest else value
    return merged


def count(option: str, text: str) -> int:
    """A positive number; raises UsageError for anything else."""
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) < 1:
        raise UsageError(f"{option} {text}: expected a whole number of at least 1")
    return int(text)


def texts(_: str, values: Sequence[str]) -> tuple[str, ...]:
    """The texts of a repeatable option."""
    return tuple(values)


def names(_: str, values: Sequence[str]) -> tuple[str, ...]:
    """The comma-separated names in some texts, without duplicates."""
    return tuple(dict.fromkeys(name for text in values for name in text.split(",") if name))


def pairs(option: str, texts: Sequence[str], *, form: str, needs_value: bool = True) -> dict[str, str]:
    """Pairs of NAME=VALUE by name; raises UsageError for another form and a name that is given twice."""
    values: dict[str, str] = {}
    for name, value in assignments(option, texts, form=form, needs_value=needs_value):
        if name in values:
            raise UsageError(f"{option}: {name} is given twice")
        values[name] = value
    return values


def assignments(
    option: str, texts: Iterable[str], *, form: str, needs_value: bool = True
) -> Iterator[tuple[str, str]]:
    """The name and value of each NAME=VALUE; raises UsageError for another form."""
    for text in texts:
        name, sign, value = text.partition("=")
        if not name or (needs_value and not sign):
            raise UsageError(f"{option} {text}: expected {form}")
        yield name, value


def short_duration(option: str, text: str) -> str:
    """Converts `30m`, `2h`, `1d12h` or an ISO 8601 duration to ISO 8601; raises UsageError for other text."""
    match = _SHORT_TIME.fullmatch(text.strip())
    if match:
        days, hours, minutes, seconds = match.groups()
        clock = "".join(f"{n}{unit}" for n, unit in ((hours, "H"), (minutes, "M"), (seconds, "S")) if n)
        text = "P" + (f"{days}D" if days else "") + (f"T{clock}" if clock else "")
    try:
        if duration(text):
            return text
        raise ValueError("it must be longer than zero")
    except ValueError as error:
        raise UsageError(f"{option}: {error}", hint="write it as 30m, 2h, 1d or PT2H") from None


def with_grace(body: Mapping[str, Any], setting: str) -> dict[str, Any]:
    """The fields of a job with the grace of the settings, if it has none of its own."""
    changed = {} if setting == DEFAULT_GRACE else {"batchaiGrace": short_duration("setting grace", setting)}
    return {**changed, **body}


def patterns(option: str, values: Sequence[str]) -> dict[str, str]:
    """The regular expressions of NAME=REGEX by name; raises UsageError for an invalid one."""
    from batchai_magics.options.regular_expressions import compile_number

    by_name = pairs(option, values, form="NAME=REGEX")
    for name, pattern in by_name.items():
        compile_number(pattern, option=f"{option} {name}")
    return by_name


def conditions(option: str, values: Sequence[str]) -> tuple[str, ...]:
    """The conditions without duplicates; raises UsageError for an invalid one."""
    from batchai_magics.models.stop_conditions import conditions_of

    return conditions_of(values, option)


def channel_addresses(option: str, values: Sequence[str]) -> tuple[str, ...]:
    """The addresses of notifications; raises UsageError, without any of them, for an invalid one."""
    from batchai_magics.models.runs.notifications import channels

    _checked(option, lambda: (channel.address for channel in channels(values)))
    return tuple(dict.fromkeys(text.strip() for text in values))


def exports(option: str, values: Sequence[str]) -> tuple[str, ...]:
    """The targets of exports; raises UsageError for an invalid one."""
    from batchai_magics.models.runs.scalar_export import export_targets

    return _checked(option, lambda: map(str, export_targets(values)))


def tags(option: str, values: Sequence[str]) -> tuple[str, ...]:
    """The tags of `a,b` without duplicates; raises UsageError for one that is not a word."""
    from batchai_magics.models.runs.labels import check_tags

    return _checked(option, lambda: check_tags(names(option, values)))


def _checked(option: str, values: Callable[[], Iterable[str]]) -> tuple[str, ...]:
    try:
        return tuple(values())
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None


JOB_OPTIONS: tuple[Option, ...] = (
    JobOption(("--name",), "name of the job, in place of the first word", "NAME", completes=NameKind.JOB,
              elsewhere=("-J", "--job-name")),
    JobOption(("--cluster",),
              "cluster to run on: a name or a full id", "CLUSTER", completes=NameKind.CLUSTER),
    JobOption(("--nodes",), "number of nodes (1)", "N", read=count, sets="nodeCount",
              elsewhere=("-N", "--nnodes", "--num-nodes", "--num-machines", "--node-count")),
    JobOption(("--processes",),
              "total number of processes, over all nodes (one per node or GPU)", "N", read=count,
              elsewhere=("-n", "-np", "--np", "-c", "--ntasks", "--ntasks-per-node", "--nproc",
                         "--nproc-per-node", "--num-proc", "--num-processes", "--workers", "--world-size")),
    JobOption(("--gpus",),
              "GPUs to use on each node; other jobs may use the rest (all)", "N",
              read=count, sets="batchaiGpus",
              elsewhere=("-G", "--gpus-per-node", "--gres", "--num-gpus", "--devices")),
    JobOption(("--toolkit",), "how the processes are started (mpi)", "KIND", choices=TOOLKITS),
    JobOption(("--args",), "arguments for the script, as one text", "TEXT"),
    JobOption(("--image",), "container image to run in", "IMAGE",
              elsewhere=("--container", "--container-image", "--docker", "--docker-image")),
    JobOption(("--prep",), "command run on every node before the job", "COMMAND"),
    JobOption(("--python",), "Python of the ranks, as its path on the nodes", "PATH"),
    JobOption(("--with",),
              "package to install for the ranks, in addition to their Python's: einops, 'numpy<2'",
              "PACKAGE", is_repeatable=True, read=texts, field="packages"),
    JobOption(("--env",), "variable of the job; without a value, that of this process", "NAME[=VALUE]",
              is_repeatable=True, read=texts, elsewhere=("-x", "-e")),
    JobOption(("--secret",),
              "secret variable of the job: its value comes from this process; output hides it",
              "NAME", is_repeatable=True, read=texts, field="secrets"),
    JobOption(("--input",),
              "folder to read: $AZ_BATCHAI_INPUT_<ID> of the job", "ID=PATH", is_repeatable=True,
              read=partial(pairs, form="ID=PATH"), field="inputs"),
    JobOption(("--output",), "folder to write: $AZ_BATCHAI_OUTPUT_<ID> of the job", "ID[=SUFFIX]",
              is_repeatable=True,
              read=partial(pairs, form="ID or ID=SUFFIX", needs_value=False), field="outputs"),
    JobOption(("--mount",), "share, container or file server to mount below $AZ_BATCHAI_JOB_MOUNT_ROOT",
              "[KIND:]NAME[=PATH]", is_repeatable=True, read=texts, field="mounts"),
    JobOption(("--storage-account-name",), "storage account of mounts that name none", "NAME",
              completes=NameKind.ACCOUNT),
    JobOption(("--storage-account-key",),
              "its key, best as {variable}: the notebook keeps what is on the line",
              "KEY"),
    JobOption(("--priority",),
              "priority in the queue (normal)", "LEVEL", choices=PRIORITIES, sets="schedulingPriority"),
    JobOption(("--after",),
              "start when these jobs have succeeded: the latest runs of these names, all trials of a sweep",
              "JOB", value_kind=ValueKind.MANY, completes=NameKind.JOB, read=names, sets="batchaiAfter",
              elsewhere=("-d", "--dependency", "--depends-on")),
    JobOption(("--after-any",), "start when these jobs have ended, also if they failed", "JOB",
              value_kind=ValueKind.MANY, completes=NameKind.JOB, read=names, sets="batchaiAfterAny"),
    JobOption(("--max-time",),
              "time limit: 30m, 2h, 1d or PT2H (7 days)", "TIME",
              read=short_duration, sets="constraints.maxWallClockTime",
              elsewhere=("-t", "--time", "--time-limit", "--timeout", "--walltime")),
    JobOption(("--requeue",),
              "continue, up to N times, after losing nodes or reaching the time limit", "N",
              read=count, sets="batchaiMaxRestarts"),
    JobOption(("--signal-before",), "warn the processes before such an end (SIGUSR1, stopping()): 120s, 5m",
              "TIME", read=short_duration, sets="batchaiSignalBefore"),
    JobOption(("--grace",),
              "how long the processes may take to save when they are told to end (30s)", "TIME",
              read=short_duration, sets="batchaiGrace"),
    JobOption(("--check",),
              "check the nodes and the network between them first; stop if one is bad or slow",
              value_kind=ValueKind.NOTHING, read=lambda flag, _: "stop", sets="batchaiPreflight"),
    JobOption(("--exclude-bad",), "the same, but run without the nodes that are bad or slow",
              value_kind=ValueKind.NOTHING, read=lambda flag, _: "exclude", sets="batchaiPreflight"),
    JobOption(("--experiment",),
              "experiment that the job belongs to", "NAME", completes=NameKind.EXPERIMENT),
    JobOption(("--workspace",), "workspace that the job belongs to", "NAME", completes=NameKind.WORKSPACE),
    JobOption(("--upload",),
              "files, folders or patterns such as data/*.csv for the working directory", "PATH",
              value_kind=ValueKind.MANY, completes=NameKind.PATH, read=texts, field="uploads"),
    JobOption(("--use",), "notebook variables to make available to the script: a,b", "VAR",
              is_repeatable=True, read=names, field="uses"),
    JobOption(("--metric",),
              "a number to read from the log", "NAME=REGEX", is_repeatable=True,
              read=patterns, field="patterns"),
    JobOption(("--stop-if",), 'end the job: "loss is nan", "gpu < 5% for 30m", "cost > 20"',
              "CONDITION", is_repeatable=True, read=conditions),
    JobOption(("--notify",), "notify when the job ends: a webhook, an apprise URL, or a command",
              "URL|COMMAND", is_repeatable=True, read=channel_addresses),
    JobOption(("--export",), "export the metrics while the job runs: tensorboard=DIR,mlflow=URI", "TARGET",
              is_repeatable=True, read=exports, field="exports"),
    JobOption(("--tag",),
              "tags of the run, to find it by: baseline,wide", "TAG", is_repeatable=True,
              read=tags, field="tags"),
    JobOption(("--no-provenance",), "do not record code, variables or git state with the run",
              value_kind=ValueKind.NOTHING, field="has_no_provenance"),
    JobOption(("--dry-run",),
              "show what would be submitted; nothing is written",
              value_kind=ValueKind.NOTHING, field="is_dry_run"),
)  # fmt: skip

OF_JOB_CREATE = (
    *("--stop-if", "--notify", "--export", "--tag", "--no-provenance", "--requeue", "--signal-before"),
    *("--grace", "--check", "--exclude-bad", "--after", "--after-any", "--dry-run"),
)
"""The flags that a job from a file has too. Others mean something else there, such as `--output json`."""


def flag_hint(flag: str, options: Iterable[Option]) -> str:
    """A hint for an unknown flag: the option that other tools call so, or a similar one; may be empty."""
    known = list(options)
    spelled = flag.lower().replace("_", "-") if flag.startswith("--") else flag
    for option in known:
        if spelled in option.elsewhere:
            return f"Here it is {option.flags[0]}: {option.help}."
    names = [name for option in known for name in option.flags if name.startswith("--")]
    return did_you_mean(flag, names, likeness=MISSPELT)


def job_create_options() -> tuple[Option, ...]:
    """The options of a job from a file, as commands show them: their help is a sentence."""
    chosen = (option for option in JOB_OPTIONS if option.flags[0] in OF_JOB_CREATE)
    return tuple(replace(option, help=f"{option.help[0].upper()}{option.help[1:]}.") for option in chosen)
