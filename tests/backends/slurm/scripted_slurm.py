"""Slurm's commands or its client answered in memory, and the backend on them: what Slurm is asked for."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from batchai_magics.backends.machines.machine import CommandLine, CompletedCommand, Machine
from batchai_magics.backends.slurm.client import SlurmClient
from batchai_magics.backends.slurm.parse import SEPARATOR, NodeLine, SlurmJob
from batchai_magics.backends.slurm.settings import SlurmSettings
from batchai_magics.errors import ServiceError

CONFIGURATION = """\
Configuration data
AccountingStorageType = accounting_storage/{accounting}
MaxArraySize = 3
SuspendProgram = (null)
ResumeProgram = (null)
"""
HEADS = {"PATH": "/usr/bin", "HOME": "/home/me", "NCCL_DEBUG": "INFO", "MY_TOKEN": "hush"}


@dataclass
class Job:
    """A job that Slurm has."""

    options: list[str]
    script: str
    env: Mapping[str, str]
    state: str = "PENDING"
    nodes: str = ""
    is_held: bool = False
    excluded: str = ""

    @property
    def comment(self) -> str:
        """The guid of its run."""
        return next(option for option in self.options if option.startswith("--comment=")).partition("=")[2]

    def option(self, name: str) -> str | None:
        """The value of one of its options; None without it."""
        return next((o.partition("=")[2] for o in self.options if o.partition("=")[0] == f"--{name}"), None)


@dataclass(eq=False)
class ScriptedSlurm(Machine):
    """A login node of a Slurm whose nodes and jobs are what a test says."""

    nodes: dict[str, str] = field(default_factory=lambda: {"n1": "idle", "n2": "idle", "n3": "idle"})
    jobs: dict[str, Job] = field(default_factory=dict)
    streamed: list[CommandLine] = field(default_factory=list)
    programs: set[str] = field(default_factory=set)
    refusal: str = ""
    accounted: list[str] = field(default_factory=list)  # the job numbers of each query of accounting
    accounting: str = "slurmdbd"
    gres: str = "(null)"  # of each node
    _numbers: count[int] = field(default_factory=lambda: count(1))

    @property
    def environ(self) -> Mapping[str, str]:
        return HEADS

    def has_program(self, program: str) -> bool:
        return program in self.programs

    def run(
        self, line: CommandLine, *, timeout_s: float, result_folder: Path | None = None
    ) -> CompletedCommand:
        program, *words = line.arguments
        if program == "sh":  # which looks for uv
            return CompletedCommand(0 if "uv" in self.programs else 1, b"", b"")
        answer = getattr(self, f"_{program}")(words, line.env)
        if answer is None:
            return CompletedCommand(1, b"", self.refusal.encode())
        return CompletedCommand(0, answer.encode(), b"")

    def stream(self, line: CommandLine, *, tick_s: float) -> Generator[bytes, None, int]:
        self.streamed.append(line)
        yield b"said on the node\n"
        Path(line.arguments[-2]).write_text("3")
        return 0

    def job_of(self, guid: str) -> Job:
        """The latest job of a run."""
        return [job for job in self.jobs.values() if job.comment == guid][-1]

    def _sinfo(self, words: list[str], env: Mapping[str, str]) -> str:
        if "--version" in words:
            return "slurm 23.11.4"
        rows = [
            (name, partition, state, "4", "1-00:00:00", "none", "a100", self.gres, "1-infinite")
            for partition in ("batch*", "debug")
            for name, state in self.nodes.items()
        ]
        return "".join(f"{SEPARATOR.join(row)}\n" for row in rows)

    def _squeue(self, words: list[str], env: Mapping[str, str]) -> str:
        rows = [
            (number, job.state, "Resources", "N/A", job.nodes, job.comment)
            for number, job in self.jobs.items()
        ]
        return "".join(f"{SEPARATOR.join(row)}\n" for row in rows)

    def _sbatch(self, words: list[str], env: Mapping[str, str]) -> str | None:
        if self.refusal:
            return None
        *options, script = words
        number = str(next(self._numbers))
        self.jobs[number] = Job(options, Path(script).read_text(), env, is_held="--hold" in options)
        return f"{number}\n"

    def _scancel(self, words: list[str], env: Mapping[str, str]) -> str:
        self.jobs[words[-1]].state = "CANCELLED"
        return ""

    def _sacct(self, words: list[str], env: Mapping[str, str]) -> str:
        self.accounted += [word.partition("=")[2] for word in words if word.startswith("--jobs=")]
        return ""

    def _scontrol(self, words: list[str], env: Mapping[str, str]) -> str:
        match words:
            case ["show", "config"]:
                return CONFIGURATION.format(accounting=self.accounting)
            case ["update", jobid, excluded]:
                self.jobs[jobid.partition("=")[2]].excluded = excluded.partition("=")[2]
            case [("hold" | "release") as verb, number]:
                self.jobs[number].is_held = verb == "hold"
        return ""


class ScriptedClient(SlurmClient):
    """A client of Slurm that accepts every job, reports scripted states, and may be down."""

    def __init__(self) -> None:
        super().__init__(Machine())
        self.lines: dict[str, SlurmJob] = {}
        self.submitted: list[list[str]] = []
        self.cancelled: list[str] = []
        self.asked = 0
        self.is_down = False
        self.meanwhile: Callable[[], object] = bool  # what somebody else does before it takes a job
        self._numbers = count(1)

    def submit(self, script: Path, options: list[str], *, python: str) -> str:
        self.submitted.append(list(options))
        self.meanwhile()
        return str(next(self._numbers))

    def cancel(self, number: str) -> None:
        if self.is_down:
            raise ServiceError("down", code="SlurmUnavailable")
        self.cancelled.append(number)

    def jobs(self) -> dict[str, SlurmJob]:
        self.asked += 1
        if self.is_down:
            raise ServiceError("down", code="SlurmUnavailable")
        return self.lines

    def nodes(self) -> list[NodeLine]:
        return []

    def configuration(self) -> dict[str, str]:
        return {}

    def report(self, state: str, comment: str = "guid") -> None:
        """Reports job 1 in this state."""
        self.lines = {"1": SlurmJob("1", state, "Resources", "N/A", "", comment)}


@dataclass(frozen=True)
class ScriptedSettings(SlurmSettings):
    """Settings of the backend on a Slurm in memory."""

    slurm: ScriptedSlurm = field(default_factory=ScriptedSlurm)
    look_s: float = 0.0

    @property
    def machine(self) -> ScriptedSlurm:
        return self.slurm
