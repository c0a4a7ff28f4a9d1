"""The outcome of a run, from the exits of its processes or why it was stopped."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from batchai_magics.errors import DISK_FULL, is_disk_full
from batchai_magics.launch.outcome import Outcome, error_detail, exits_of
from batchai_magics.launch.plan import Limits, Plan, ProcessExit, Role
from batchai_magics.untrusted_files import tail_of

if TYPE_CHECKING:
    from batchai_magics.backends.node.ranks.pmi import Abort

REQUEUE, TERMINATE = "requeue", "terminate"  # why a job stops; any other reason is a sentence
STOP_IF = "stop-if "  # prefix of the reason when a stop condition was met
MAX_LINE = 1000  # bytes of the last line of a setup task's log
LOST, NODE_LOST = "JobNodeLost", "A node of the job was lost"
NO_CODE = 255  # exit code of a job whose processes reported none, for example after the loss of their node
KILLED = 128 + 9  # exit code of a process that was killed; Windows, which reads outcomes too, has no SIGKILL


class Fault(NamedTuple):
    """Why processes must end although none of them failed.

    A rank called MPI_Abort, ranks ended for which others wait, or output cannot be written.
    """

    abort: Abort | None = None
    missed: tuple[int, ...] = ()
    unwritable: OSError | None = None


NO_FAULT = Fault()


def ranks_outcome(
    ends: Iterable[ProcessExit], plan: Plan, ended_on_their_own: Collection[int], fault: Fault = NO_FAULT
) -> Outcome:
    """The outcome of a job's processes: the first failure of a process that ended on its own decides."""
    ranks = exits_of(ends, plan)
    first, server = ranks[0], Role.PARAMETER_SERVER
    workers = [rank for rank in ranks if plan.processes[rank.rank].role is not server]
    is_well = all(rank.exit_code == 0 for rank in workers)
    if first.exit_code and first.rank in ended_on_their_own and not is_well:
        failed = process_failed(first, plan.notes)
        write_errors = write_failure(fault.unwritable, plan).errors if fault.unwritable else ()
        return failed._replace(ranks=ranks, errors=(*failed.errors, *write_errors))
    silent = [rank.rank for rank in workers if rank.rank not in ended_on_their_own]
    return _fault_outcome(fault, plan, silent, is_well=is_well)._replace(ranks=ranks)


def _fault_outcome(fault: Fault, plan: Plan, silent: Sequence[int], *, is_well: bool) -> Outcome:
    """The outcome of a job none of whose ranks failed on its own; the silent ones left no exit code."""
    if fault.abort:
        rank, node = fault.abort.rank, plan.node_of(plan.processes[fault.abort.rank]).id
        return process_failed(ProcessExit(rank, node, fault.abort.code & 255 or 1), plan.notes)
    if fault.unwritable:
        return write_failure(fault.unwritable, plan, code=0 if is_well else None)
    if is_well:
        return Outcome(0)
    if fault.missed:  # whatever their exit code, others would hang
        names, is_one = ", ".join(map(str, fault.missed)), len(fault.missed) == 1
        subject, pronoun = (f"Rank {names}", "it") if is_one else (f"Ranks {names}", "them")
        text = f"{subject} ended without MPI_Finalize while other ranks were waiting for {pronoun}"
    else:
        text = "Processes disappeared before the job was done"
    listed = ",".join(map(str, fault.missed or silent))
    return failed_with("JobFailed", text, NO_CODE, processes=listed)


def write_error(errnos: Iterable[int]) -> OSError | None:
    """Why output was not written, of the errors on all nodes: a full disk, if any is one."""
    errors = [OSError(number, os.strerror(number)) for number in errnos]
    return next(filter(is_disk_full, errors), errors[0] if errors else None)


def write_failure(problem: OSError, plan: Plan, *, code: int | None = None) -> Outcome:
    """The outcome of a job whose output could not be written completely."""
    if is_disk_full(problem):
        folder = plan.output.stdout.path.rpartition("/")[0]
        text = f"The disk that holds the job's output is full: free some space in {folder}, then resubmit"
        return failed_with(DISK_FULL, text, code)
    text = f"The job's output could not be written: {problem.strerror}"
    return failed_with("OutputLost", text, code)


def supervisor_failure(error: Exception) -> Outcome:
    """The outcome of a job that its supervisor could not run, for any reason."""
    if is_disk_full(error):
        return failed_with(DISK_FULL, "The disk is full: the job could not be run to its end")
    return failed_with("SupervisorFailed", f"The job could not be run: {error!r}")


def launch_failure(error: Exception) -> Outcome:
    """The outcome of a job that has nodes and none of whose processes could be started."""
    if is_disk_full(error):
        text = "The disk is full: nothing of the job was started. Free some space and submit it again"
        return failed_with(DISK_FULL, text)
    return failed_with("JobLaunchFailed", str(error))


def preparation_outcome(codes: Sequence[int]) -> Outcome | None:
    """The outcome of a failed preparation, by the exit codes of the nodes; None if all are 0."""
    bad = next((code for code in codes if code), None)
    text = "Job preparation task failed with non-zero exit code"
    return failed_with("JobPreparationFailed", text, bad) if bad else None


def setup_problem(node: str, exit_code: int, log: str) -> str:
    """Why a node is not set up, with the last line that the setup task has written to its log."""
    try:
        lines = tail_of(log, MAX_LINE).splitlines()
    except (OSError, ValueError):
        lines = []
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    reason = f"{last} (exit code {exit_code})" if last else f"exit code {exit_code}"
    return f"Setup failed on {node}: {reason}; its output is in {log}"


def stop_outcome(reason: str, again: str = "") -> Outcome:
    """The outcome of a stopped job: the reason is `terminate`, `requeue` (for `again`), or a sentence."""
    if reason == REQUEUE:
        return Outcome(None, is_requeued=True, reason=again)
    if reason == TERMINATE:
        return failed_with("JobTerminated", "The specified job has been terminated by the user")
    is_condition = reason.startswith(STOP_IF)
    return failed_with("JobStopConditionMet" if is_condition else "JobTerminated", reason)


def node_loss(problems: Mapping[str, str]) -> Outcome:
    """The outcome of a job that lost nodes, with the engine's report on each; empty if they are unknown."""
    if not problems:
        return failed_with(LOST, NODE_LOST)
    named = ", ".join(f"{name} ({problem})" if problem else name for name, problem in problems.items())
    return failed_with(LOST, f"{NODE_LOST}: {named}", NodeId=",".join(problems))


def dependency_failed(name: str, how: str = "did not succeed") -> Outcome:
    """The outcome of a job that was to start after another one, which failed or was deleted."""
    text = f"{name} {how}, and the job was to start after it: nothing of it ran"
    return failed_with("DependencyFailed", text, predecessor=name)


def time_limit_reached(limits: Limits) -> Outcome:
    """The outcome of a job that reached its maxWallClockTime."""
    words = " ".join(f"{count} {unit}" for count, unit in _parts(limits.wall_s))
    more = "".join(f"{count}{unit[0]}" for count, unit in _parts(2 * max(1, math.ceil(limits.wall_s))))
    text = f"The job reached its time limit of {words}; to give it more: --max-time {more}"
    return failed_with("JobMaxWallClockTimeReached", text)


def _parts(seconds: float) -> list[tuple[str, str]]:
    """The parts of a duration: `2 h`, `30 min`."""
    parts = []
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        count, seconds = divmod(seconds, size)
        parts += [(f"{count:.0f}", unit)] * bool(count)
    return [*parts, *[(f"{seconds:g}", "s")] * bool(seconds or not parts)]


def failed_with(code: str, message: str, exit_code: int | None = None, /, **details: object) -> Outcome:
    """A failure with these details; without an exit code, no process caused it."""
    return Outcome(exit_code, (error_detail(code, message, _details(**details)),))


def process_failed(rank: ProcessExit, notes: Sequence[str] = ()) -> Outcome:
    """The outcome of a job in which this process failed first."""
    code = rank.exit_code
    details = _details(failedRank=rank.rank, failedNode=rank.node, exitCode=code)
    details += [{"name": "note", "value": note} for note in notes]
    return Outcome(code, (error_detail("JobFailed", "Job failed with non-zero exit code", details),))


def _details(**values: object) -> list[dict[str, str]]:
    return [{"name": name, "value": str(value)} for name, value in values.items()]
