"""Translates the command line of a launcher (torchrun, accelerate, deepspeed, mpirun) to options of a job.

The job's own launcher starts the processes, so the counts of the line become options, its rendezvous options
are dropped, and the script with its arguments is passed on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from batchai_magics.errors import UsageError, did_you_mean

_ANY = ("auto", "gpu", "cpu")  # counts that depend on the node


@dataclass(frozen=True)
class _Launcher:
    """A launcher's options, without their dashes and with `-` for `_`.

    Attributes:
        toolkit: The toolkit that starts the same processes.
        processes: Options with the number of processes on each node (on all nodes if `is_total`).
        nodes: Options with the number of nodes.
        dropped: Other options with a value, which the job's launcher replaces.
        switches: The same without a value.
        environment: Options with a value that the script's library reads from this variable.
    """

    toolkit: str
    processes: tuple[str, ...]
    nodes: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    is_total: bool = False


_TORCHRUN = _Launcher(
    "pytorch",
    processes=("nproc-per-node",),
    nodes=("nnodes",),
    dropped=(
        *("rdzv-backend", "rdzv-endpoint", "rdzv-id", "rdzv-conf", "node-rank", "master-addr", "master-port"),
        *("local-addr", "max-restarts", "monitor-interval", "start-method", "log-dir", "role", "tee", "t"),
        *("redirects", "r", "local-ranks-filter", "logs-specs"),
    ),
    switches=("standalone", "use-env"),
)
_ACCELERATE = _Launcher(
    "pytorch",
    processes=("num-processes",),
    nodes=("num-machines",),
    dropped=(
        *("machine-rank", "main-process-ip", "main-process-port", "rdzv-backend", "rdzv-conf", "gpu-ids"),
        *("same-network", "num-cpu-threads-per-process", "max-restarts", "monitor-interval", "role", "tee"),
    ),
    switches=("multi-gpu", "multi-cpu", "same-network", "quiet", "q"),
    environment={
        "mixed-precision": "ACCELERATE_MIXED_PRECISION",
        "gradient-accumulation-steps": "ACCELERATE_GRADIENT_ACCUMULATION_STEPS",
        "dynamo-backend": "ACCELERATE_DYNAMO_BACKEND",
    },
    is_total=True,
)
_DEEPSPEED = _Launcher(
    "pytorch",
    processes=("num-gpus",),
    nodes=("num-nodes",),
    dropped=(
        *("hostfile", "H", "include", "i", "exclude", "e", "master-addr", "master-port", "launcher"),
        *("launcher-args", "node-rank", "log-level", "ssh-port"),
    ),
    switches=("no-local-rank", "no-ssh", "no-ssh-check", "force-multi"),
)
_MPIRUN = _Launcher(
    "horovod",
    processes=("np", "n", "c"),
    dropped=(
        *("host", "H", "hosts", "hostfile", "machinefile", "f", "ppn", "npernode", "map-by", "bind-to"),
        *("rank-by", "iface", "launcher", "bootstrap", "start-timeout"),
    ),
    switches=(
        "oversubscribe",
        "allow-run-as-root",
        "verbose",
        "v",
        "tag-output",
        "prepend-rank",
        "gloo",
        "mpi",
    ),
    is_total=True,
)
_LAUNCHERS = {
    ("torchrun",): _TORCHRUN,
    ("python", "-m", "torch.distributed.run"): _TORCHRUN,
    ("python", "-m", "torch.distributed.launch"): _TORCHRUN,
    ("accelerate", "launch"): _ACCELERATE,
    ("deepspeed",): _DEEPSPEED,
    ("mpirun",): _MPIRUN,
    ("mpiexec",): _MPIRUN,
    ("horovodrun",): _MPIRUN,
}


@dataclass(frozen=True)
class LauncherLine:
    """A translated line: the script with its arguments, and the job's options by flag.

    `note` says in one line what became of the launcher's options.
    """

    script: str
    args: tuple[str, ...]
    options: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


def is_launcher(words: Sequence[str]) -> bool:
    """Whether a line starts with a launcher or with `python`."""
    is_python = bool(words) and PurePosixPath(words[0]).name.startswith("python")
    return is_python or any(_starts_with(words, head) for head in _LAUNCHERS)


def translate(words: Sequence[str], node_count: int = 0) -> LauncherLine:
    """Translates a line that starts with a launcher, with `python` or with the script.

    Args:
        words: The line.
        node_count: The job's number of nodes, which replaces the launcher's; 0 if it is not given.

    Raises:
        UsageError: An option of the launcher is unknown or cannot be kept, or the line names no script.
    """
    head = next((head for head in _LAUNCHERS if _starts_with(words, head)), None)
    if head is None:
        return LauncherLine(*_script(words, words[0] if words else ""))
    return _OptionReader(" ".join(head), _LAUNCHERS[head], node_count).line(words[len(head) :])


def _starts_with(words: Sequence[str], head: Sequence[str]) -> bool:
    program = PurePosixPath(words[0]).name if words else ""
    program = "python" if program.startswith("python3") else program
    return (program, *words[1 : len(head)]) == tuple(head)


def _script(words: Sequence[str], launcher: str) -> tuple[str, tuple[str, ...]]:
    """The script and its arguments; `python` and its `-u` before it are skipped."""
    rest = list(words)
    if rest and PurePosixPath(rest[0]).name.startswith("python"):
        del rest[0]
        while rest[:1] == ["-u"]:
            del rest[0]
    if not rest or rest[0].startswith("-"):
        what = f"{rest[0]} instead of a script" if rest else "no script"
        raise UsageError(f"{launcher}: {what}", hint="name a Python file, such as train.py")
    return rest[0], tuple(rest[1:])


class _OptionReader:
    """Reads the options of one launcher."""

    def __init__(self, name: str, launcher: _Launcher, node_count: int) -> None:
        self._name, self._launcher, self._node_count = name, launcher, node_count
        self._counts: dict[str, str] = {}
        self._env: dict[str, str] = {}
        self._dropped: list[str] = []

    def line(self, words: Sequence[str]) -> LauncherLine:
        rest = list(words)
        while rest and rest[0].startswith("-"):
            self._read(rest)
        script, args = _script(rest, self._name)
        options = self._options()
        kept = [f"{flag} {value}" for flag, value in options.items()]
        kept += [f"--env {name}={value}" for name, value in self._env.items()]
        dropped = f"; left out: {' '.join(self._dropped)}" if self._dropped else ""
        return LauncherLine(
            script, args, options, self._env, f"{self._name}: runs as {' '.join(kept)}{dropped}"
        )

    def _read(self, rest: list[str]) -> None:
        """Reads one option with its value and removes both from the words."""
        flag, sign, value = rest.pop(0).partition("=")
        name, of = flag.lstrip("-").replace("_", "-"), self._launcher
        if name in ("x", "genv") and of is _MPIRUN:
            self._read_variable(rest, has_two=name == "genv")
        elif name in of.switches and not sign:
            self._dropped.append(flag)
        elif name in (*of.processes, *of.nodes, *of.dropped, *of.environment):
            self._keep(name, flag, value if sign else self._next(rest, flag))
        else:
            hint = (
                did_you_mean(name, (*of.processes, *of.nodes)) or "leave it out, or give the job's own option"
            )
            raise UsageError(f"{self._name}: {flag} cannot be translated", hint=hint)

    def _keep(self, name: str, flag: str, value: str) -> None:
        of = self._launcher
        if name in of.environment:
            self._env[of.environment[name]] = value
        elif name in of.dropped or value in _ANY:
            self._dropped.append(f"{flag} {value}")
        elif not value.isdecimal() or int(value) < 1:
            raise UsageError(f"{self._name}: {flag} {value}: must be a positive integer")
        else:
            self._counts["processes" if name in of.processes else "nodes"] = value

    def _read_variable(self, rest: list[str], *, has_two: bool) -> None:
        """Reads `-x NAME=VALUE` or `-genv NAME VALUE`."""
        name, _, value = self._next(rest, "-x").partition("=")
        value = self._next(rest, "-genv") if has_two else value
        if value:
            self._env[name] = value
        else:
            self._dropped.append(f"-x {name}")

    def _next(self, rest: list[str], flag: str) -> str:
        if not rest:
            raise UsageError(f"{self._name}: {flag} needs a value")
        return rest.pop(0)

    def _options(self) -> dict[str, str]:
        processes = self._counts.get("processes")
        nodes = str(self._node_count or "") or self._counts.get("nodes")
        options = {"--toolkit": self._launcher.toolkit}
        if nodes:
            options["--nodes"] = nodes
        if processes:
            total = int(processes) * (1 if self._launcher.is_total else int(nodes or 1))
            options["--processes"] = str(total)
        return options
