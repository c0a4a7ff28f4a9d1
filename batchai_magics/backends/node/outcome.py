"""How a job ended, from what its processes left behind."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from batchai_magics.errors import DISK_FULL, is_disk_full
from batchai_magics.launch.plan import Limits, Plan, ProcessExit, Role

if TYPE_CHECKING:
    from batchai_magics.backends.node.ranks.pmi import Abort

REQUEUE, TERMINATE = "requeue", "terminate"  # why a job stops; every other reason is a sentence
STOP_IF = "stop-if "  # what the sentence begins with when a condition of the job's own was met
HELP = "docs/horovod.md"  # in the repository
NO_CODE = 255  # of a job whose processes have left none

Ranks = tuple[ProcessExit, ...]  # first failure first


class Trouble(NamedTuple):
    """Why processes were ended although none of them had failed.

    A rank has called MPI_Abort, ranks have ended that others wait for, or output cannot be written.
    """

    abort: Abort | None = None
    missed: tuple[int, ...] = ()
    unwritable: OSError | None = None


NO_TROUBLE = Trouble()


class Outcome(NamedTuple):
    """The end of a job. `errors` is JSON of the service's error details; a stopped job has no exit code.

    `warnings` are of the same form: they make no failure of a success.
    """

    exit_code: int | None
    errors: tuple[dict[str, Any], ...] = ()
    ranks: Ranks = ()
    is_requeued: bool = False
    warnings: tuple[dict[str, Any], ...] = ()

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
        said = "".join(f"; warning: {warning['message']}" for warning in self.warnings)
        return f"the job ended with exit code {code}" + (f" ({reasons})" if reasons else "") + said

    def without_mpi(self, size: int) -> Outcome:
        """The same with the warning that none of so many ranks has joined the job's MPI."""
        text = (
            f"none of the {size} processes joined the MPI of this job. Unless they found each other"
            " in another way, each computed alone, as rank 0 of 1: the program is linked to another MPI than"
            f" MPICH, or to none. See {HELP}"
        )
        return self.warned("MpiNotUsed", text)

    def warned(self, code: str, *texts: str) -> Outcome:
        """The same with a warning of each text."""
        return self._replace(warnings=(*self.warnings, *(_error(code, text) for text in texts)))

    def with_ranks(self, ends: Iterable[ProcessExit], plan: Plan) -> Outcome:
        """The same, with what became of each process."""
        return self._replace(ranks=_ranks(ends, plan))


def of_ranks(
    ends: Iterable[ProcessExit], plan: Plan, by_themselves: Collection[int], trouble: Trouble = NO_TROUBLE
) -> Outcome:
    """The outcome of a job's processes: the first failure of one that ended by itself decides."""
    ranks = _ranks(ends, plan)
    first, workers = ranks[0], _workers(ranks, plan)
    is_well = all(rank.exit_code == 0 for rank in workers)
    if first.exit_code and first.rank in by_themselves and not is_well:
        return _failed(first, plan.notes)._replace(ranks=ranks)
    silent = [rank.rank for rank in workers if rank.rank not in by_themselves]
    return _of_trouble(trouble, plan, silent, is_well=is_well)._replace(ranks=ranks)


def _of_trouble(trouble: Trouble, plan: Plan, silent: Sequence[int], *, is_well: bool) -> Outcome:
    """The outcome of a job of which no rank failed by itself."""
    if trouble.abort:
        return _failed(_aborted(trouble.abort, plan), plan.notes)
    if trouble.unwritable:
        return unwritable(trouble.unwritable, code=0 if is_well else None)
    if is_well:
        return Outcome(0)
    return _missed(trouble.missed) if trouble.missed else _disappeared(silent)


def unwritable(problem: OSError, *, code: int | None = None) -> Outcome:
    """The outcome of a job whose output could not be kept to the end."""
    if is_disk_full(problem):
        return Outcome(code, (_error(DISK_FULL, "The disk that holds the job's output is full"),))
    text = f"The job's output could not be written: {problem.strerror}"
    return Outcome(code, (_error("OutputLost", text),))


def not_run(error: Exception) -> Outcome:
    """The outcome of a job that its supervisor could not run, whatever it was."""
    if is_disk_full(error):
        return failed_with(DISK_FULL, "The disk is full: the job could not be run to its end")
    return failed_with("SupervisorFailed", f"The job could not be run: {error!r}")


def not_started(error: Exception) -> Outcome:
    """The outcome of a job that has its nodes and no supervisor, whatever the reason was."""
    if is_disk_full(error):
        text = "The disk is full: nothing of the job was started. Free some space and submit it again"
        return failed_with(DISK_FULL, text)
    return failed_with("JobLaunchFailed", str(error))


def _workers(ranks: Ranks, plan: Plan) -> Ranks:
    """All but parameter servers: those are ended when the others are done, and how does not count."""
    return tuple(rank for rank in ranks if plan.processes[rank.rank].role is not Role.PARAMETER_SERVER)


def _aborted(abort: Abort, plan: Plan) -> ProcessExit:
    """The end of a rank that has called MPI_Abort, as its process would have told it."""
    return ProcessExit(abort.rank, plan.node_of(plan.processes[abort.rank]).id, abort.code & 255 or 1)


def _missed(ranks: Sequence[int]) -> Outcome:
    """Ranks have ended in the middle of MPI: whatever their exit code, the others would wait for ever."""
    named = ", ".join(map(str, ranks))
    text = f"Rank {named} ended without MPI_Finalize while other ranks were waiting for it"
    return Outcome(NO_CODE, (_error("JobFailed", text, _details(processes=",".join(map(str, ranks)))),))


def _disappeared(silent: Sequence[int]) -> Outcome:
    """Processes left no exit code."""
    details = _details(processes=",".join(map(str, silent)))
    return Outcome(NO_CODE, (_error("JobFailed", "Processes disappeared before the job was done", details),))


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
    is_own = reason.startswith(STOP_IF)
    return failed_with("JobStopConditionMet" if is_own else "JobTerminated", reason)


def too_long(limits: Limits) -> Outcome:
    """The outcome of a job that reached its maxWallClockTime."""
    return failed_with("JobMaxWallClockTimeReached", f"The job ran longer than {_span(limits.wall_s)}")


def _span(seconds: float) -> str:
    """A span of time as people write it: `5s`, `2h 30m`, `7d`."""
    parts = []
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        count, seconds = divmod(seconds, size)
        parts += [f"{count:.0f}{unit}"] * bool(count)
    return " ".join([*parts, *[f"{seconds:g}s"] * bool(seconds or not parts)])


def failed_with(code: str, message: str, **details: object) -> Outcome:
    """A failure that no process caused."""
    return Outcome(None, (_error(code, message, _details(**details)),))


def _failed(rank: ProcessExit, notes: Sequence[str]) -> Outcome:
    code = rank.exit_code
    details = _details(failedRank=rank.rank, failedNode=rank.node, exitCode=code)
    details += [{"name": "note", "value": note} for note in notes]
    return Outcome(code, (_error("JobFailed", "Job failed with non-zero exit code", details),))


def _ranks(ends: Iterable[ProcessExit], plan: Plan) -> Ranks:
    """Every process, failures first and in the order in which they happened."""
    ranks = {end.rank: end for end in ends}
    for process in plan.processes:
        ranks.setdefault(process.rank, ProcessExit(process.rank, plan.node_of(process).id))
    return tuple(sorted(ranks.values(), key=_failure_order))


def _failure_order(rank: ProcessExit) -> tuple[bool, float, int]:
    return (not rank.exit_code, (rank.ended or 0.0) if rank.exit_code else 0.0, rank.rank)


def _error(code: str, message: str, details: list[dict[str, str]] | None = None) -> dict[str, Any]:
    error: dict[str, Any] = {"code": code, "message": message}
    if details:
        error["details"] = details
    return error


def _details(**values: object) -> list[dict[str, str]]:
    return [{"name": name, "value": str(value)} for name, value in values.items()]
