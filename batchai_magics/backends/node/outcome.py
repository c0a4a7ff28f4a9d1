"""How a job ended, from what its processes left behind."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from batchai_magics.launch.plan import Plan, ProcessExit, Role

REQUEUE, TERMINATE = "requeue", "terminate"  # why a job stops; every other reason is a sentence
FULL_BYTES = 1 << 20  # less free space than this: the disk is full

Ranks = tuple[ProcessExit, ...]  # first failure first


@dataclass(frozen=True)
class Outcome:
    """The end of a job. `errors` is JSON of the service's error details; a stopped job has no exit code."""

    exit_code: int | None
    errors: tuple[dict[str, Any], ...] = ()
    ranks: Ranks = ()
    is_requeued: bool = False

    @property
    def is_success(self) -> bool:
        """Whether every process ended with exit code 0."""
        return not self.errors and not self.is_requeued

    @property
    def sentence(self) -> str:
        """The outcome for the execution log."""
        if self.is_requeued:
            return "the job was stopped and queued again"
        code = "none" if self.exit_code is None else self.exit_code
        reasons = "; ".join(f"{error['code']}: {error['message']}" for error in self.errors)
        return f"the job ended with exit code {code}" + (f" ({reasons})" if reasons else "")

    def with_ranks(self, exits: Path, plan: Plan) -> Outcome:
        """The same, with what became of each process."""
        return replace(self, ranks=_ranks(exits, plan))


def of_ranks(exits: Path, plan: Plan, by_themselves: Collection[int], *, launcher_code: int) -> Outcome:
    """The outcome of a job's processes: the first failure of one that ended by itself decides."""
    ranks = _ranks(exits, plan)
    workers = _workers(ranks, plan)
    if all(rank.exit_code == 0 for rank in workers):
        return Outcome(0, ranks=ranks)
    if ranks[0].exit_code and ranks[0].rank in by_themselves:
        return replace(_failed(ranks[0], plan.notes), ranks=ranks)
    if _is_full(plan.output.stdout.path):
        error = _error("DiskFull", "The disk that holds the job's output is full")
        return Outcome(None, (error,), ranks)
    silent = [rank.rank for rank in workers if rank.rank not in by_themselves]
    return replace(_disappeared(silent, launcher_code), ranks=ranks)


def _workers(ranks: Ranks, plan: Plan) -> Ranks:
    """All but parameter servers: those are ended when the others are done, and how does not count."""
    return tuple(rank for rank in ranks if plan.processes[rank.rank].role is not Role.PARAMETER_SERVER)


def _disappeared(silent: Sequence[int], launcher_code: int) -> Outcome:
    """Processes left no exit code: they, or their launcher, were killed from outside."""
    how = (
        f"The launcher (mpiexec) ended with code {launcher_code}"
        if launcher_code
        else "Processes disappeared"
    )
    details = _details(processes=",".join(map(str, silent)))
    code = 128 - launcher_code if launcher_code < 0 else launcher_code or 255
    return Outcome(code, (_error("JobFailed", f"{how} before the job was done", details),))


def of_preparation(codes: Sequence[int]) -> Outcome | None:
    """None when every node was prepared."""
    bad = [code for code in codes if code]
    if not bad:
        return None
    return Outcome(
        bad[0], (_error("JobPreparationFailed", "Job preparation task failed with non-zero exit code"),)
    )


def stopped(reason: str) -> Outcome:
    """The outcome of a job that was told to stop: `terminate`, `requeue`, or what else stopped it."""
    if reason == REQUEUE:
        return Outcome(None, is_requeued=True)
    if reason == TERMINATE:
        return failed_with("JobTerminated", "The specified job has been terminated by the user")
    return failed_with("JobTerminated", reason)


def failed_with(code: str, message: str, **details: object) -> Outcome:
    """A failure that no process caused."""
    return Outcome(None, (_error(code, message, _details(**details)),))


def _failed(rank: ProcessExit, notes: Sequence[str]) -> Outcome:
    code = rank.exit_code
    details = _details(failedRank=rank.rank, failedNode=rank.node, exitCode=code)
    details += [{"name": "note", "value": note} for note in notes]
    return Outcome(code, (_error("JobFailed", "Job failed with non-zero exit code", details),))


def _ranks(exits: Path, plan: Plan) -> Ranks:
    """Every process, failures first and in the order in which they happened."""
    ranks = {ended.rank: ended for ended in exits_in(exits)}
    for process in plan.processes:
        ranks.setdefault(process.rank, ProcessExit(process.rank, plan.node_of(process).id))
    return tuple(sorted(ranks.values(), key=_failure_order))


def exits_in(folder: Path) -> list[ProcessExit]:
    """What each process that has ended left in the folder for their exits."""
    files = [file for file in folder.iterdir() if file.suffix != ".part"]
    return [ProcessExit(**json.loads(file.read_text(encoding="utf-8"))) for file in files]


def _failure_order(rank: ProcessExit) -> tuple[bool, float, int]:
    return (not rank.exit_code, (rank.ended or 0.0) if rank.exit_code else 0.0, rank.rank)


def _error(code: str, message: str, details: list[dict[str, str]] | None = None) -> dict[str, Any]:
    error: dict[str, Any] = {"code": code, "message": message}
    if details:
        error["details"] = details
    return error


def _details(**values: object) -> list[dict[str, str]]:
    return [{"name": name, "value": str(value)} for name, value in values.items()]


def _is_full(path: str) -> bool:
    room = os.statvfs(Path(path).parent)
    return room.f_bavail * room.f_frsize < FULL_BYTES
