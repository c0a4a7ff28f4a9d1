"""Translates the command line of a launcher (torchrun, accelerate, deepspeed, mpirun) to options of a job.

The job's own launcher starts the processes, so the counts of the line become options, its rendezvous options
are dropped, and the script or module with its arguments is passed on.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from batchai_magics.cell.launchers import (
    ACCELERATE,
    DEEPSPEED,
    LAUNCHERS,
    MPIRUN,
    NAMES,
    TORCH_LAUNCH,
    TORCHRUN,
    JobCounts,
    LauncherCounts,
    LauncherSyntax,
)
from batchai_magics.errors import UsageError, did_you_mean
from batchai_magics.models.secret_masking import is_secret_name, is_secret_text

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_LIKELY_SCRIPTS = ("__main__.py", "train.py", "main.py", "run.py")  # of a folder in place of a script
_SHELLS = ("bash", "dash", "ksh", "sh", "zsh")
SHELL_HINT = "Write what it starts: batchai run -- torchrun train.py. --prep takes shell commands."
_PYTHON = re.compile(r"python(\d+(\.\d+)?)?")
# Switches of Python, and the environment variables that replace them.
_PYTHON_SWITCHES: Mapping[str, Mapping[str, str]] = {
    "-u": {},
    "-B": {"PYTHONDONTWRITEBYTECODE": "1"},
    "-O": {"PYTHONOPTIMIZE": "1"},
    "-OO": {"PYTHONOPTIMIZE": "2"},
    "-s": {"PYTHONNOUSERSITE": "1"},
}
# Switches of `uv run` that do not change what it runs, as its environment is used as it is.
_UV_SWITCHES = ("--no-sync", "--frozen", "--locked", "-q", "--quiet", "-v", "--verbose", "--offline")
_INSTEAD = {"max-restarts": "a failed run is not repeated; --requeue N continues after lost nodes"}
_PER_NODE = re.compile(r"ppr:(\d+):node(:.*)?")  # of Open MPI's --map-by
_SLOTS = re.compile(r"(?:\s+slots=|:)(\d+)\b")
# Keys of Accelerate's settings that have no effect on a job.
_NO_EFFECT = ("compute_environment", "distributed_type", "downcast_bf16", "machine_rank", "rdzv_backend")
_KINDS = {  # of `distributed_type`, as the switch that chooses them
    "DEEPSPEED": "use_deepspeed",
    "FSDP": "use_fsdp",
    "MEGATRON_LM": "use_megatron_lm",
    "MULTI_CPU": "multi_cpu",
    "TPU": "tpu",
    "XLA": "tpu",
}
_PARTS = {"fsdp_config": "fsdp_", "dynamo_config": "dynamo_", "deepspeed_config": ""}
_TO_SCRIPT = "pass these settings to Accelerator() in the script"


@dataclass(frozen=True)
class LauncherLine:
    """A translated line: the script or module with its arguments, and the job's options by flag."""

    script: str  # the script; of a module, its name
    args: tuple[str, ...]
    options: Mapping[str, str] = field(default_factory=dict)  # options of the job, by flag
    env: Mapping[str, str] = field(default_factory=dict)  # variables of the job
    passed: tuple[str, ...] = ()  # variables of this process that the job has, too
    note: str = ""  # what became of the launcher's options, in one line
    is_module: bool = False  # whether it is a module, as for `python -m`
    rank_option: str = ""  # the option with which each process is told its local rank; empty: none
    python: str = ""  # the interpreter that the line names by its path
    is_project: bool = False  # whether `uv run` starts it, with the environment of the project


def is_launcher(words: Sequence[str]) -> bool:
    """Whether a line starts with a launcher, `python`, `env`, `uv` or a variable."""
    starts = words[:1] in (["env"], ["uv"]) or bool(words and _ASSIGNMENT.fullmatch(words[0]))
    return starts or _launcher(words) is not None or _is_python(words)


def unknown_launcher(word: str) -> UsageError:
    """The error for a line that starts with another word; it lists the launchers."""
    if (folder := Path(word)).is_dir():
        scripts = [*(folder / name for name in _LIKELY_SCRIPTS), *sorted(folder.glob("[!_]*.py"))]
        script = next(filter(Path.is_file, scripts), None)
        hint = f"Write: batchai run {shlex.quote(str(script))}" if script else "It has no Python file."
        return UsageError(f"{word} is a folder; a job runs a script", hint=hint)
    if Path(word).name in _SHELLS:
        return UsageError(f"{word} runs a shell script; a job runs Python", hint=SHELL_HINT)
    hint = f"Known are {NAMES}, after `env NAME=VALUE` where needed."
    return UsageError(f"{word}: no such file, and no launcher that is translated", hint=hint)


def translate(
    words: Sequence[str], counts: JobCounts | None = None, folder: Path | None = None
) -> LauncherLine:
    """Translates a line that starts with a launcher, with `python` or with the script.

    Args:
        words: The line.
        counts: The job's own counts, which replace the launcher's.
        folder: The folder of relative paths, by default the working directory.

    Raises:
        UsageError: The line is no launcher's, an option of the launcher is unknown or cannot be kept, or the
            line names no script.
    """
    return _LineReader(counts or JobCounts(), folder or Path.cwd()).line(list(words))


def _launcher(words: Sequence[str]) -> tuple[str, ...] | None:
    """The key of the launcher that a line starts with."""
    program = PurePosixPath(words[0]).name if words else ""
    program = "python" if _PYTHON.fullmatch(program) else program
    starts = ((program, *words[1 : len(head)]) == head for head in LAUNCHERS)
    return next((head for head, is_start in zip(LAUNCHERS, starts, strict=True) if is_start), None)


def _is_python(words: Sequence[str]) -> bool:
    return bool(words) and bool(_PYTHON.fullmatch(PurePosixPath(words[0]).name))


class _LineReader:
    """Reads a line from left to right: variables, `uv run`, the launcher with its options, the script."""

    def __init__(self, counts: JobCounts, folder: Path) -> None:
        self._counts, self._folder = counts, folder
        self._env: dict[str, str] = {}
        self._python = ""
        self._is_project = False
        self._dropped: list[str] = []
        self._settings_file = ""  # of Accelerate

    def line(self, words: list[str]) -> LauncherLine:
        self._read_prefixes(words)
        head = _launcher(words)
        if head is None:
            line, note = self._script(words, "batchai run"), ""
        else:
            line, note = self._launched(head, words)
        left_out = f"left out: {' '.join(self._dropped)}" if self._dropped else ""
        note = "; ".join(filter(None, (note, left_out)))
        return replace(line, env=self._env, python=self._python, is_project=self._is_project, note=note)

    def _launched(self, head: Sequence[str], words: list[str]) -> tuple[LauncherLine, str]:
        """What the launcher starts, and how it is translated."""
        name, launcher = " ".join(head), LAUNCHERS[tuple(head)]
        self._read_interpreter(words[0], is_python=head[0] == "python")
        reader, rest = self._read_options(name, launcher, words[len(head) :])
        if launcher is MPIRUN and ":" in rest:
            hint = "Start one script, which chooses by its rank."
            raise UsageError(f"{name}: several programs (:) cannot be translated", hint=hint)
        module = LauncherLine(_named(rest, name), tuple(rest[1:]), is_module=True)
        line = module if reader.is_module else self._script(rest, name)
        options = reader.options()
        self._env |= reader.env
        self._dropped += reader.dropped
        translated = [f"{flag} {value}" for flag, value in options.items()]
        translated += [f"--env {variable}={value}" for variable, value in self._env.items()]
        translated += [f"--env {variable}" for variable in reader.passed]
        settings = f", with {self._settings_file}" if self._settings_file else ""
        line = replace(line, options=options, passed=tuple(reader.passed), rank_option=reader.rank_option)
        return line, f"{name}{settings}: runs as {' '.join(translated)}"

    def _read_prefixes(self, words: list[str]) -> None:
        """Reads `env NAME=VALUE …` and `uv run` before a launcher."""
        while words:
            if words[0] == "env":
                del words[0]
                self._refuse_option(words, "env", "write NAME=VALUE, or --env of `batchai run`")
            elif assignment := _ASSIGNMENT.fullmatch(words[0]):
                check_no_secret(assignment[1], assignment[2])
                self._env[assignment[1]] = assignment[2]
                del words[0]
            elif words[:2] == ["uv", "run"]:
                self._read_uv(words)
            else:
                return

    def _read_uv(self, words: list[str]) -> None:
        """Reads `uv run` and its switches; a module becomes `python -m`."""
        del words[:2]
        self._is_project = True
        while words[:1] and words[0] in _UV_SWITCHES:
            self._dropped += [word for word in words[:1] if word not in ("-q", "--quiet", "--no-sync")]
            del words[0]
        if words[:1] in (["-m"], ["--module"]):
            words[:1] = ["python", "-m"]
        elif words[:1] in (["-s"], ["--script"], ["--"]):
            del words[0]
        self._refuse_option(
            words, "uv run", "packages go to `batchai run`: --with PACKAGE, without uv run; or `uv add` them"
        )

    @staticmethod
    def _refuse_option(words: Sequence[str], program: str, hint: str) -> None:
        if words and words[0].startswith("-"):
            raise UsageError(f"{program}: {words[0]} cannot be translated", hint=hint)

    def _read_options(
        self, name: str, launcher: LauncherSyntax, words: list[str]
    ) -> tuple[OptionReader, list[str]]:
        """The options of the launcher, with those that it reads from elsewhere, and the words behind them."""
        if launcher in (TORCHRUN, TORCH_LAUNCH):
            variables = [variable for variable in self._env if variable.startswith("PET_")]
            options = [f"--{name[4:].lower()}={self._env.pop(name)}" for name in variables]
            words = [*options, *words]
        reader = OptionReader(name, launcher, self._counts, self._folder)
        rest = reader.read(words)
        if launcher is not ACCELERATE:
            return reader, rest
        option_words = words[: len(words) - len(rest)]  # a script may have such an option of its own
        is_default = "--cpu" not in option_words
        if path := accelerate_config(reader.config_file, self._folder, is_default=is_default):
            self._settings_file = str(path)
            reader = OptionReader(name, launcher, self._counts, self._folder)
            rest = reader.read([*config_options(path), *words])
        if self._counts.gpus == 0:  # or each process would train alone
            reader.env.setdefault("ACCELERATE_USE_CPU", "true")
        return reader, rest

    def _read_interpreter(self, program: str, *, is_python: bool) -> None:
        """Keeps the Python that the line names by its path, or that lies beside a launcher."""
        if "/" in program:
            path = Path(os.path.abspath(self._folder / Path(program).expanduser()))  # noqa: PTH100 links are kept
            path = path if is_python else path.with_name("python")
            if is_python or path.exists():
                self._python = str(path)

    def _script(self, words: Sequence[str], launcher: str) -> LauncherLine:
        """The script or module with its arguments; `python` before it is skipped."""
        rest = list(words)
        if _is_python(rest):
            self._read_interpreter(rest.pop(0), is_python=True)
            while rest and rest[0] in _PYTHON_SWITCHES:
                self._env |= _PYTHON_SWITCHES[rest.pop(0)]
            if rest[:1] == ["-m"]:
                return LauncherLine(_named(rest[1:], launcher), tuple(rest[2:]), is_module=True)
        script = _named(rest, launcher)
        if not script.endswith((".py", ".ipynb")) and not (self._folder / script).expanduser().is_file():
            raise unknown_launcher(script)
        return LauncherLine(script, tuple(rest[1:]))


def _named(rest: Sequence[str], launcher: str) -> str:
    """The first word, which names a script or module."""
    if not rest or rest[0].startswith("-"):
        problem = f"{rest[0]} instead of a script" if rest else "no script"
        raise UsageError(f"{launcher}: {problem}", hint="name a Python file, such as train.py")
    return rest[0]


def check_no_secret(name: str, value: str) -> None:
    """Raises UsageError for a variable that looks like a secret: the line would show and keep its value."""
    if is_secret_name(name) or is_secret_text(value):
        hint = f"Set it in the environment of this command, and write --secret {name} before the --."
        raise UsageError(f"{name} looks like a secret, which does not belong on the line", hint=hint)


class OptionReader:
    """Reads the options of one launcher.

    Attributes:
        env: Variables of the job.
        passed: Variables of this process that the job has, too.
        dropped: The options that are left out, as they were written.
        is_module: Whether `-m` is given.
        config_file: The value of Accelerate's `--config_file`.
        rank_option: The option with which each process is told its local rank.
    """

    def __init__(self, name: str, launcher: LauncherSyntax, counts: JobCounts, folder: Path) -> None:
        self._name, self._launcher, self._job_counts, self._folder = name, launcher, counts, folder
        self._counts = LauncherCounts()
        self.env: dict[str, str] = {}
        self.passed: list[str] = []
        self.dropped: list[str] = []
        self.is_module = False
        self.config_file = ""
        self.rank_option = launcher.rank_option

    def read(self, words: Sequence[str]) -> list[str]:
        """Reads the options, and returns the words behind them."""
        rest = list(words)
        while rest and rest[0].startswith("-") and rest[0] != "--":
            self._read(rest)
        return rest[1:] if rest[:1] == ["--"] else rest

    def _read(self, rest: list[str]) -> None:
        """Reads one option with its value and removes both from the words."""
        flag, sign, value = rest.pop(0).partition("=")
        name, syntax = flag.lstrip("-").replace("_", "-"), self._launcher
        known = (*syntax.counts, *syntax.hosts, *syntax.host_files, *syntax.dropped, *syntax.environment)
        if name in syntax.variables:
            self._read_variable(rest, flag, has_two=name != "x")
        elif name in syntax.modules:
            self.is_module = True
        elif not sign and self._is_switch(name, flag):
            return
        elif name in syntax.refused:
            text = f"{self._name}: {flag} cannot be translated"
            raise UsageError(text, hint=syntax.refused[name])
        elif name in syntax.pairs:
            self.dropped.append(f"{flag} {self._next(rest, flag)} {self._next(rest, flag)}")
        elif name in known or name.startswith(tuple(syntax.prefixes)):
            self._keep(name, flag, value if sign else self._next(rest, flag))
        else:
            raise self._unknown(name, flag)

    def _unknown(self, name: str, flag: str) -> UsageError:
        """The error for an option that is not in the table of the launcher."""
        counts = [option for option, kind in self._launcher.counts.items() if kind != "per_node"]
        hint = did_you_mean(name, counts) or "leave it out, or give the job's own option"
        return UsageError(f"{self._name}: {flag} cannot be translated", hint=hint)

    def _is_switch(self, name: str, flag: str) -> bool:
        """Whether it is an option without a value, which is then read."""
        syntax = self._launcher
        if name in syntax.flags:
            self.env |= syntax.flags[name]
        elif name in ("use-env", "no-local-rank") and syntax.rank_option:
            self.rank_option = ""
        elif name in syntax.switches:
            self.dropped.append(flag)
        else:
            return False
        return True

    def _keep(self, name: str, flag: str, value: str) -> None:
        syntax = self._launcher
        prefix = next((candidate for candidate in syntax.prefixes if name.startswith(candidate)), "")
        if name in syntax.environment:
            self.env[syntax.environment[name]] = value
        elif prefix:
            text = value.lower() if value.lower() in ("true", "false") else value
            self.env[syntax.prefixes[prefix] + name.removeprefix(prefix).replace("-", "_").upper()] = text
        elif name in (*syntax.hosts, *syntax.host_files):
            self._read_hosts(flag, value, is_file=name in syntax.host_files)
        elif name in syntax.counts:
            self._count(syntax.counts[name], flag, value)
        elif name == "config-file":
            self.config_file = value
        elif name == "map-by" and (per_node := _PER_NODE.fullmatch(value)):
            self._count("per_node", flag, per_node[1])
        else:
            instead = f" ({_INSTEAD[name]})" if name in _INSTEAD and value != "0" else ""
            self.dropped.append(f"{flag} {value}{instead}")

    def _count(self, kind: str, flag: str, value: str) -> None:
        """Keeps one of the counts: nodes, processes or per_node."""
        if kind == "processes" and value in ("auto", "gpu", "cpu", "xpu"):
            gpus = self._job_counts.gpus
            if value in ("cpu", "xpu") or gpus == 0:
                why = "is not known before the job runs" if value in ("cpu", "xpu") else "has no GPUs"
                hint = f"Write the number, such as {flag}=2."
                raise UsageError(f"{self._name}: {flag} {value}: the node {why}", hint=hint)
            self._counts.processes = gpus
            return
        least, _, most = value.partition(":")
        number = least if least == most else value  # a range of one
        if not number.isdecimal() or int(number) < 1:
            hint = "a job's nodes do not change while it runs: write one number" if most else ""
            raise UsageError(f"{self._name}: {flag} {value}: must be a positive integer", hint=hint)
        setattr(self._counts, kind, int(number))

    def _read_hosts(self, flag: str, value: str, *, is_file: bool) -> None:
        """Keeps the hosts that an option or its file lists, or those that deepspeed chooses among them."""
        try:
            if is_file:
                self._counts.hosts = hosts_in_file(self._folder / Path(value).expanduser())
            elif self._launcher is DEEPSPEED:
                self._counts.chosen = chosen_slots(value)
            else:
                self._counts.hosts = listed_hosts(value)
        except OSError as error:
            raise UsageError(f"{self._name}: {flag} {value}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise UsageError(f"{self._name}: {flag} {value} is not a text file") from None
        except ValueError:
            raise UsageError(f"{self._name}: {flag} {value}: expected HOST:SLOTS,…") from None

    def _read_variable(self, rest: list[str], flag: str, *, has_two: bool) -> None:
        """Reads `-x NAME=VALUE`, `-x NAME` or `-genv NAME VALUE`."""
        name, sign, value = self._next(rest, flag).partition("=")
        if sign or has_two:
            value = self._next(rest, flag) if has_two else value
            check_no_secret(name, value)
            self.env[name] = value
        elif name in os.environ:
            self.passed.append(name)
        else:
            self.dropped.append(f"-x {name} (not set here)")

    def _next(self, rest: list[str], flag: str) -> str:
        if not rest:
            raise UsageError(f"{self._name}: {flag} needs a value")
        return rest.pop(0)

    def options(self) -> dict[str, str]:
        """The toolkit and the counts as options of the job."""
        try:
            counts = self._counts.for_job(self._launcher, self._job_counts)
        except UsageError as error:
            raise UsageError(f"{self._name}: {error.message}", hint=error.hint) from None
        if self._counts.nodes and counts.nodes != self._counts.nodes:
            self.dropped.append(f"{self._counts.nodes} nodes (--nodes {counts.nodes} counts)")
        options = {"--toolkit": self._launcher.toolkit}
        if counts.nodes:
            options["--nodes"] = str(counts.nodes)
        if counts.processes:
            options["--processes"] = str(counts.processes)
        return options


def listed_hosts(text: str) -> dict[str, int]:
    """The slots of each host of mpirun's `a:2,b:2`; 0: not said.

    Raises:
        ValueError: The slots are no number.
    """
    hosts: dict[str, int] = {}
    for item in text.split(","):
        name, _, slots = item.strip().partition(":")
        hosts[name] = hosts.get(name, 0) + int(slots or 0)
    return hosts


def chosen_slots(text: str) -> dict[str, int]:
    """How many slots of each host deepspeed's `a@b:0,2` chooses; 0: all of them."""
    hosts: dict[str, set[str]] = {}
    for item in text.split("@"):
        name, _, slots = item.strip().partition(":")
        hosts.setdefault(name, set()).update(filter(None, slots.split(",")))
    return {name: len(slots) for name, slots in hosts.items()}


def hosts_in_file(path: Path) -> dict[str, int]:
    """The slots of each host of a file such as `worker-1 slots=4`; 0: not said.

    Raises:
        OSError: It cannot be read.
    """
    lines = (line.partition("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    hosts = {}
    for line in filter(None, lines):
        slots = _SLOTS.search(line)
        hosts[re.split(r"[\s:]", line, maxsplit=1)[0]] = int(slots[1]) if slots else 0
    return hosts


def accelerate_config(config_file: str, folder: Path, *, is_default: bool = True) -> Path | None:
    """The file of `--config_file`, or else the one that `accelerate config` has written; None without one."""
    if config_file or not is_default:
        return folder / Path(config_file).expanduser() if config_file else None
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = Path(os.environ.get("HF_HOME") or Path(cache, "huggingface")).expanduser() / "accelerate"
    names = (home / f"default_config.{kind}" for kind in ("yaml", "json"))
    return next((path for path in names if path.is_file()), None)


def config_options(path: Path) -> list[str]:
    """The settings of `accelerate config` as options of `accelerate launch`.

    Raises:
        UsageError: The file is not there, or is not one of Accelerate's.
    """
    settings = _settings(path)
    options = []
    if switch := _KINDS.get(str(settings.get("distributed_type", ""))):
        options.append(f"--{switch}")
    for name, value in settings.items():
        if name in _PARTS and isinstance(value, Mapping):
            options += _options(_PARTS[name], value)
            if name == "deepspeed_config":
                options.append(f"--deepspeed_fields_from_accelerate_config={','.join(value).lower()}")
        elif isinstance(value, (Mapping, list)):
            if value:
                raise UsageError(f"{path}: {name} cannot be translated", hint=_TO_SCRIPT)
        elif name not in _NO_EFFECT and not (name == "gpu_ids" and value == "all"):
            options += _options("", {name: value})
    return options


def _settings(path: Path) -> Mapping[str, Any]:
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
        settings = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except OSError as error:
        raise UsageError(f"accelerate launch: {path}: {error.strerror}") from None
    except (ValueError, yaml.YAMLError):
        raise UsageError(f"accelerate launch: {path} is not valid YAML") from None
    if not isinstance(settings, Mapping):
        raise UsageError(f"accelerate launch: {path} has no settings of Accelerate")
    return settings


def _options(prefix: str, values: Mapping[str, Any]) -> Iterator[str]:
    for key, value in values.items():
        name = key if key.startswith(prefix) else prefix + key
        is_switch = isinstance(value, bool) and not name.startswith(("fsdp_", "zero3_"))
        if value is None or (is_switch and not value):
            continue
        yield (
            f"--{name}"
            if is_switch
            else f"--{name}={str(value).lower() if value in (True, False) else value}"
        )
