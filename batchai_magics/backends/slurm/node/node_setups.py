"""Records on which nodes a cluster's setup task has run, in files on the shared folder: once per node.

A node that was rebooted since must be set up again. While a job sets nodes up, it holds and renews a claim
for each; a claim that is a minute old belongs to a job that died.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from batchai_magics.backends.folders import private_files
from batchai_magics.backends.node.outcome import NO_CODE, failed_with, setup_problem
from batchai_magics.backends.node.requirements import run_elevated
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import Plan, ProcessExit
from batchai_magics.untrusted_files import read_json

CLAIM_S = 60.0
SAME_BOOT_S = 60.0  # two readings of the same boot time differ by a second or two
FAILED = "NodeSetupFailed"
NO_VARIABLES: Mapping[str, str] = MappingProxyType({})
_TIME = "%Y-%m-%dT%H:%M:%S"


class SetupRecord(NamedTuple):
    """The result of the setup task on a node with the boot time `boot`."""

    exit_code: int
    time: float
    boot: str = ""  # in Slurm's format; empty if unknown
    log: str = ""

    def is_good(self, boot: str) -> bool:
        """Whether the node is still set up, given its current boot time."""
        if self.exit_code or not (self.boot and boot):
            return not self.exit_code
        return abs(_seconds(self.boot) - _seconds(boot)) <= SAME_BOOT_S


class NodeSetups:
    """The setup state of a cluster's nodes, and for those of a job the task: its plan and environment.

    `boots` are the current boot times of nodes.
    """

    def __init__(
        self,
        folder: Path,
        plan: Plan | None = None,
        *,
        env: Mapping[str, str] = NO_VARIABLES,
        boots: Mapping[str, str] = NO_VARIABLES,
    ) -> None:
        self._folder, self._plan, self.env, self._boots = folder, plan, env, boots
        self._claims: list[Path] = []

    def all(self) -> dict[str, SetupRecord]:
        """The results of the task, by node."""
        records = {file.stem: _read(file) for file in self._folder.glob("*.json")}
        return {name: record for name, record in records.items() if record}

    def missing(self) -> list[str]:
        """The nodes of the job that are not set up."""
        return self._missing([node.id for node in self._plan.nodes] if self._plan else ())

    def plan_of(self, names: Collection[str]) -> Plan:
        """The part of the task for these nodes."""
        assert self._plan, "a cluster without a task has nothing to set up"
        selected = [process for process in self._plan.processes if self._plan.node_of(process).id in names]
        processes = tuple(process._replace(rank=rank) for rank, process in enumerate(selected))
        return run_elevated(self._plan._replace(processes=processes))

    def _missing(self, names: Collection[str]) -> list[str]:
        known = {name: _read(self._file(name)) for name in names}
        return [
            name
            for name, record in known.items()
            if not (record and record.is_good(self._boots.get(name, "")))
        ]

    @contextlib.contextmanager
    def claimed(self, names: Sequence[str]) -> Iterator[list[str]]:
        """The nodes that this job may set up now; within the context, no other job sets them up."""
        private_files.make_folder(self._folder)
        claimed_names = [name for name in names if self._claim(name)]
        self._claims = [self._claim_file(name) for name in claimed_names]
        try:
            yield self._missing(claimed_names)  # another job may just have finished them
        finally:
            for file in self._claims:
                file.unlink(missing_ok=True)

    def renew(self) -> None:
        """Keeps this job's claims alive."""
        for file in self._claims:
            with contextlib.suppress(OSError):
                file.touch()

    def note(self, plan: Plan, ends: Collection[ProcessExit]) -> Outcome | None:
        """Records how the task ended on a plan's nodes; returns the job's outcome if it failed."""
        codes = {end.rank: end.exit_code for end in ends}
        failures = []
        for process in plan.processes:
            name, code = plan.node_of(process).id, codes.get(process.rank)
            record = SetupRecord(
                NO_CODE if code is None else code,
                time.time(),
                self._boots.get(name, ""),
                plan.output_of(process).stderr.path,
            )
            private_files.write(self._file(name), json.dumps(record._asdict()))
            failures += [(name, record)] * bool(record.exit_code)
        if not failures:
            return None
        name, record = failures[0]
        return failed_with(FAILED, "; ".join(problem(*failure) for failure in failures), NodeId=name)

    def _claim(self, name: str) -> bool:
        file = self._claim_file(name)
        part = file.with_name(f"{file.name}.{uuid.uuid4().hex}")
        try:
            private_files.write(part, os.environ.get("SLURM_JOB_ID", ""))
            os.link(part, file)
        except FileExistsError:
            with contextlib.suppress(FileNotFoundError):  # both times are from the file system's clock
                if part.stat().st_mtime - file.stat().st_mtime > CLAIM_S:
                    file.rename(part)
            return False
        finally:
            part.unlink(missing_ok=True)
        return True

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}.json"

    def _claim_file(self, name: str) -> Path:
        return self._folder / f"{name}.claim"


def problem(name: str, record: SetupRecord) -> str:
    """Why a node is not set up."""
    return setup_problem(name, record.exit_code, record.log)


def _seconds(text: str) -> float:
    try:
        return time.mktime(time.strptime(text, _TIME))
    except ValueError:  # `None`, for a node that Slurm has not contacted yet
        return 0.0


def _read(file: Path) -> SetupRecord | None:
    try:
        return SetupRecord(**read_json(file))
    except FileNotFoundError:
        return None
