"""Reads the options of a launcher: counts, variables for the script, and what is left out."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from batchai_magics.cell.launcher_counts import JobCounts, LauncherCounts
from batchai_magics.cell.launcher_files import chosen_slots, hosts_in_file, listed_hosts
from batchai_magics.cell.launchers import ACCELERATE, DEEPSPEED, MPIRUN, LauncherSyntax
from batchai_magics.errors import UsageError, did_you_mean
from batchai_magics.models.secret_masking import is_secret_name, is_secret_text

_MODULE = ("m", "module")
_INSTEAD = {"max-restarts": "a failed run is not repeated; --requeue N continues after lost nodes"}


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
        dropped: What is left out, as it was written.
        is_module: Whether `-m` is given.
        config_file: The value of Accelerate's `--config_file`.
        rank_option: The option with which each process is told its local rank.
    """

    def __init__(self, name: str, launcher: LauncherSyntax, counts: JobCounts, folder: Path) -> None:
        self._name, self._launcher, self._asked, self._folder = name, launcher, counts, folder
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
        name, of = flag.lstrip("-").replace("_", "-"), self._launcher
        if name in ("x", "genv") and of is MPIRUN:
            self._read_variable(rest, has_two=name == "genv")
        elif name == "map-by" and of is MPIRUN:
            self._map_by(value if sign else self._next(rest, flag), flag)
        elif name in _MODULE and of is not MPIRUN:
            self.is_module = True
        elif name == "config-file" and of is ACCELERATE:
            self.config_file = value if sign else self._next(rest, flag)
        elif not sign and self._is_switch(name, flag):
            return
        elif name in of.refused:
            text = f"{self._name}: {flag} cannot be translated"
            raise UsageError(text, hint=of.refused[name])
        elif self._takes_value(name):
            self._keep(name, flag, value if sign else self._next(rest, flag))
        else:
            hint = (
                did_you_mean(name, (*of.processes, *of.nodes)) or "leave it out, or give the job's own option"
            )
            raise UsageError(f"{self._name}: {flag} cannot be translated", hint=hint)

    def _is_switch(self, name: str, flag: str) -> bool:
        """Whether it is an option without a value, which is then read."""
        of = self._launcher
        if name in of.flags:
            self.env |= of.flags[name]
        elif name in ("use-env", "no-local-rank") and of.rank_option:
            self.rank_option = ""
        elif name in of.switches:
            self.dropped.append(flag)
        else:
            return False
        return True

    def _takes_value(self, name: str) -> bool:
        of = self._launcher
        known = (*of.processes, *of.nodes, *of.hosts, *of.host_files, *of.per_node, *of.dropped)
        return name in known or name in of.environment or name.startswith(tuple(of.prefixes))

    def _keep(self, name: str, flag: str, value: str) -> None:
        of = self._launcher
        prefix = next((each for each in of.prefixes if name.startswith(each)), "")
        if name in of.environment:
            self.env[of.environment[name]] = value
        elif prefix:
            text = value.lower() if value.lower() in ("true", "false") else value
            self.env[of.prefixes[prefix] + name.removeprefix(prefix).replace("-", "_").upper()] = text
        elif name in of.hosts:
            self._choose_hosts(value, flag)
        elif name in of.host_files:
            self._read_hosts(value, flag)
        elif name in of.dropped:
            instead = f" ({_INSTEAD[name]})" if name in _INSTEAD and value != "0" else ""
            self.dropped.append(f"{flag} {value}{instead}")
        else:
            kinds = {**dict.fromkeys(of.processes, "processes"), **dict.fromkeys(of.nodes, "nodes")}
            self._count(kinds.get(name, "per_node"), flag, value)

    def _count(self, kind: str, flag: str, value: str) -> None:
        """Keeps one of the counts: nodes, processes or per_node."""
        if kind == "processes" and value in ("auto", "gpu", "cpu", "xpu"):
            self._counts.processes = self._gpus_of_node(flag, value)
            return
        least, _, most = value.partition(":")
        number = least if least == most else value  # a range of one
        if not number.isdecimal() or int(number) < 1:
            hint = "a job's nodes do not change while it runs: write one number" if most else ""
            raise UsageError(f"{self._name}: {flag} {value}: must be a positive integer", hint=hint)
        setattr(self._counts, kind, int(number))

    def _gpus_of_node(self, flag: str, value: str) -> int | None:
        """The number of processes that depends on the node: its GPUs; None if they are not known yet."""
        gpus = self._asked.gpus
        if value in ("cpu", "xpu") or gpus == 0:
            why = "is not known before the job runs" if value in ("cpu", "xpu") else "has no GPUs"
            hint = f"Write the number, such as {flag}=2."
            raise UsageError(f"{self._name}: {flag} {value}: the node {why}", hint=hint)
        return gpus

    def _choose_hosts(self, value: str, flag: str) -> None:
        try:
            if self._launcher is DEEPSPEED:
                self._counts.chosen = chosen_slots(value)
            else:
                self._counts.hosts = listed_hosts(value)
        except ValueError:
            raise UsageError(f"{self._name}: {flag} {value}: expected HOST:SLOTS,…") from None

    def _read_hosts(self, value: str, flag: str) -> None:
        try:
            self._counts.hosts = hosts_in_file(self._folder / Path(value).expanduser())
        except OSError as error:
            raise UsageError(f"{self._name}: {flag} {value}: {error.strerror}") from None

    def _map_by(self, value: str, flag: str) -> None:
        """Reads Open MPI's `--map-by ppr:N:node`."""
        found = re.fullmatch(r"ppr:(\d+):node(:.*)?", value)
        if found:
            self._count("per_node", flag, found[1])
        else:
            self.dropped.append(f"{flag} {value}")

    def _read_variable(self, rest: list[str], *, has_two: bool) -> None:
        """Reads `-x NAME=VALUE`, `-x NAME` or `-genv NAME VALUE`."""
        name, sign, value = self._next(rest, "-x").partition("=")
        if sign or has_two:
            value = self._next(rest, "-genv") if has_two else value
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
            counts = self._counts.for_job(self._launcher, self._asked)
        except UsageError as error:
            raise UsageError(f"{self._name}: {error}", hint=error.hint) from None
        if self._counts.nodes and counts.nodes != self._counts.nodes:
            self.dropped.append(f"{self._counts.nodes} nodes (--nodes {counts.nodes} counts)")
        options = {"--toolkit": self._launcher.toolkit}
        if counts.nodes:
            options["--nodes"] = str(counts.nodes)
        if counts.processes:
            options["--processes"] = str(counts.processes)
        return options
