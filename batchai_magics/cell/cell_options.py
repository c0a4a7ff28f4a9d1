"""The options of the job magic: one table for parser, help and completion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from batchai_magics.cell.cell_option_values import CellOptions, values_of
from batchai_magics.cell.sweep_options import PRUNERS, SEARCHES
from batchai_magics.errors import BatchAIError, UsageError, did_you_mean
from batchai_magics.models.backend_options import BackendOption
from batchai_magics.options.option import (
    Expected,
    NameKind,
    Option,
    ValueKind,
    candidates_after,
    option_lines,
    with_declared,
)
from batchai_magics.options.option_parsing import join_dashed_values, parse_options

MAGIC = "%%batchai_job"
TOOLKITS = ("horovod", "mpi", "pytorch", "tensorflow", "cntk", "caffe", "caffe2", "chainer", "custom")
PRIORITIES = ("low", "normal", "high")

_OF_JOB: tuple[Option, ...] = (
    Option(("--name",), "name of the job, in place of the first word", "NAME", completes=NameKind.JOB),
    Option(("--cluster",), "cluster to run on: a name or a full id", "CLUSTER", completes=NameKind.CLUSTER),
    Option(("--nodes",), "number of nodes (1)", "N"),
    Option(("--processes",), "total number of processes, over all nodes (one per node or GPU)", "N"),
    Option(("--gpus",), "GPUs to use on each node; other jobs may use the rest (all)", "N"),
    Option(("--toolkit",), "how the processes are started (mpi)", "KIND", choices=TOOLKITS),
    Option(("--args",), "arguments for the script, as one text", "TEXT"),
    Option(("--image",), "container image to run in", "IMAGE"),
    Option(("--prep",), "command run on every node before the job", "COMMAND"),
    Option(("--python",), "Python of the ranks, as its path on the nodes", "PATH"),
    Option(("--with",), "package to install for the ranks, in addition to their Python's: einops, 'numpy<2'",
           "PACKAGE", is_repeatable=True),
    Option(("--env",), "variable of the job; without a value, that of this process", "NAME[=VALUE]",
           is_repeatable=True),
    Option(("--secret",), "secret variable of the job: its value comes from this process; output hides it",
           "NAME", is_repeatable=True),
    Option(("--input",), "folder to read: $AZ_BATCHAI_INPUT_<ID> of the job", "ID=PATH", is_repeatable=True),
    Option(("--output",), "folder to write: $AZ_BATCHAI_OUTPUT_<ID> of the job", "ID[=SUFFIX]",
           is_repeatable=True),
    Option(("--mount",), "share, container or file server to mount below $AZ_BATCHAI_JOB_MOUNT_ROOT",
           "[KIND:]NAME[=PATH]", is_repeatable=True),
    Option(("--storage-account-name",), "storage account of mounts that name none", "NAME",
           completes=NameKind.ACCOUNT),
    Option(("--storage-account-key",), "its key, best as {variable}: the notebook keeps what is on the line",
           "KEY"),
    Option(("--priority",), "priority in the queue (normal)", "LEVEL", choices=PRIORITIES),
    Option(("--max-time",), "time limit: 30m, 2h, 1d or PT2H (7 days)", "TIME"),
    Option(("--requeue",), "continue, up to N times, after losing nodes or reaching --max-time", "N"),
    Option(("--signal-before",), "warn the processes before such an end (SIGUSR1, stopping()): 120s, 5m",
           "TIME"),
    Option(("--grace",), "how long the processes may take to save when they are told to end (30s)", "TIME"),
    Option(("--check",), "check the nodes and the network between them first; stop if one is bad or slow",
           value_kind=ValueKind.NOTHING),
    Option(("--exclude-bad",), "the same, but run without the nodes that are bad or slow",
           value_kind=ValueKind.NOTHING),
    Option(("--experiment",), "experiment that the job belongs to", "NAME", completes=NameKind.EXPERIMENT),
    Option(("--workspace",), "workspace that the job belongs to", "NAME", completes=NameKind.WORKSPACE),
    Option(("--upload",), "files, folders or patterns such as data/*.csv for the working directory", "PATH",
           value_kind=ValueKind.MANY, completes=NameKind.PATH),
    Option(("--use",), "notebook variables to make available to the script: a,b", "VAR",
           is_repeatable=True),
    Option(("--metric",), "a number to read from the log", "NAME=REGEX", is_repeatable=True),
    Option(("--stop-if",), 'end the job: "loss is nan", "gpu < 5% for 30m", "cost > 20"',
           "CONDITION", is_repeatable=True),
    Option(("--notify",), "notify when the job ends: a webhook, an apprise URL, or a command",
           "URL|COMMAND", is_repeatable=True),
    Option(("--export",), "export the metrics while the job runs: tensorboard=DIR,mlflow=URI", "TARGET",
           is_repeatable=True),
)  # fmt: skip
_OF_CELL: tuple[Option, ...] = (
    Option(("--spec",), "the cell is a job.json, as JSON or YAML", value_kind=ValueKind.NOTHING),
    Option(("--file",), "read this job.json; the cell stays empty", "FILE", completes=NameKind.PATH),
    Option(("--template",), "fill {names} in the script too", value_kind=ValueKind.NOTHING),
    Option(("--dry-run",), "show what would be submitted; nothing is written", value_kind=ValueKind.NOTHING),
    Option(("--wait",), "wait for the end of the job", value_kind=ValueKind.NOTHING),
    Option(("--sweep",), "run a job for each of these values: \"lr=1e-4,1e-3 batch=32,64\","
           " \"lr=log(1e-5,1e-1)\", or the rows of a DataFrame", "PARAMETERS"),
    Option(("--trials",), "how many trials a random search or Optuna makes", "N"),
    Option(("--seed",), "seed of the search (0): the same seed gives the same trials", "N"),
    Option(("--search",), "how the trials are chosen (grid, or random where there are ranges)", "METHOD",
           choices=SEARCHES),
    Option(("--parallel",), "how many trials run at once (as many as there are nodes for)", "N"),
    Option(("--best",), "what makes a trial the best: \"min val_loss\" (the headline metric)", "GOAL"),
    Option(("--retry-failed",), "run a trial that fails again, up to N times", "N"),
    Option(("--prune",), "end trials that do worse than the others did at the same step", "METHOD",
           choices=PRUNERS),
    Option(("--new",), "run it again as NAME-2 if NAME exists", value_kind=ValueKind.NOTHING),
    Option(("--grow",), "give the cluster as many nodes as the job wants, if it has fewer",
           value_kind=ValueKind.NOTHING),
    Option(("--tag",), "tags of the run, to find it by: baseline,wide", "TAG", is_repeatable=True),
    Option(("--no-provenance",), "do not record code, variables or git state with the run",
           value_kind=ValueKind.NOTHING),
    Option(("--same",), "refuse an edited cell rather than run it as NAME-2", value_kind=ValueKind.NOTHING),
    Option(("--var",), "Python name that the job is bound to (job)", "NAME"),
    Option(("--help", "-h"), "show this text", value_kind=ValueKind.NOTHING),
)  # fmt: skip
OPTIONS = (*_OF_JOB, *_OF_CELL)


_HELP_HINT = f"`{MAGIC} --help` lists the options"
_JOB = Option(("JOB-NAME",), "name of the job", completes=NameKind.JOB)  # the first word


def cell_options(declared: Iterable[BackendOption] = ()) -> tuple[Option, ...]:
    """All options, with those that backends declare."""
    native = map(_native_option, declared)
    return (*_OF_JOB, *with_declared(OPTIONS, native)[len(OPTIONS) :], *_OF_CELL)


def _native_option(option: BackendOption) -> Option:
    if option.is_switch:
        return Option((option.flag,), option.help, value_kind=ValueKind.NOTHING)
    return Option((option.flag,), option.help, option.metavar)


class HelpRequested(BatchAIError):
    """Raised for `--help`; the message is the help text to print."""

    exit_code = 0

    def _render_traceback_(self) -> list[str]:
        return [self.message]


def read_options(
    words: Sequence[str], env: Mapping[str, str], declared: Sequence[BackendOption] = ()
) -> CellOptions:
    """Parses the words of the magic line.

    Args:
        words: The words, split as a shell does.
        env: Source of secrets.
        declared: The options of backends.

    Raises:
        UsageError: An option is unknown, lacks its value or has an invalid one; the message names it.
        HelpRequested: `--help` was given.
    """
    options = cell_options(declared)
    words = join_dashed_values(words, options)
    given, extra = parse_options((_JOB, *options), words, make_error=_usage_error)
    if given.help:
        raise HelpRequested(help_text(declared))
    if extra:
        raise _unknown(extra[0], options)
    given.name = _one_name(given.job_name, given.name)
    return values_of(given, env, declared)


def help_text(declared: Iterable[BackendOption] = ()) -> str:
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


def expected_in_cell(words: Sequence[str], declared: Iterable[BackendOption] = ()) -> Expected:
    """What may follow these words on a job cell's first line."""
    return candidates_after(words, (_JOB, *cell_options(declared)))


def _usage_error(message: str) -> UsageError:
    return UsageError(message.removeprefix("argument "), hint=_HELP_HINT)


def _unknown(word: str, options: Sequence[Option]) -> UsageError:
    if not word.startswith("-"):
        hint = f'put texts with blanks in quotes, as in --args "--model {word}"'
        return UsageError(f"unexpected argument {word!r}: the job's name is already given", hint=hint)
    flag = word.split("=")[0]
    hint = did_you_mean(flag, [option.flags[0] for option in options]) or _HELP_HINT
    return UsageError(f"unknown option {flag}", hint=hint)


def _one_name(first: str | None, named: str | None) -> str | None:
    if first and named and first != named:
        raise UsageError(f"the job has two names: {first} and {named}", hint="leave out --name")
    return first or named
