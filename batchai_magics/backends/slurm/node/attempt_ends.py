"""Ends of attempts: Slurm's final job states, why the previous attempt ended, and whether memory ran out."""

from __future__ import annotations

import enum
import os
import re
import signal
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from batchai_magics.backends.node.outcome import (
    KILLED,
    LOST,
    NO_CODE,
    NODE_LOST,
    REQUEUE,
    failed_with,
    stop_outcome,
)
from batchai_magics.backends.slurm.node.run_files import (
    NOT_REPORTED,
    AttemptNote,
    AttemptStart,
    RankMark,
    RunFiles,
)
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import Plan, ProcessExit
from batchai_magics.untrusted_files import tail_of

TERMINATED = 128 + signal.SIGTERM  # the exit code of a process that SIGTERM ended


class EndState(enum.Enum):
    """The final state of an allocation, as Slurm reports it."""

    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    TIMEOUT = "TIMEOUT"
    DEADLINE = "DEADLINE"
    NODE_FAIL = "NODE_FAIL"
    BOOT_FAIL = "BOOT_FAIL"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    PREEMPTED = "PREEMPTED"
    LAUNCH_FAILED = "LAUNCH_FAILED"
    REVOKED = "REVOKED"
    GONE = ""  # Slurm has no record of it any more


_ERRORS = {
    EndState.COMPLETED: (
        "JobSupervisorLost",
        "Slurm reports that the job's script has ended, but the script reported no status",
    ),
    EndState.FAILED: ("JobSupervisorLost", "The job's supervisor on its first node failed"),
    EndState.CANCELLED: (
        "JobTerminated",
        "The job was cancelled in Slurm: by scancel, or by an administrator",
    ),
    EndState.TIMEOUT: ("JobMaxWallClockTimeReached", "The job reached the time limit of its partition"),
    EndState.DEADLINE: ("JobMaxWallClockTimeReached", "The job reached its deadline in Slurm"),
    EndState.NODE_FAIL: (LOST, NODE_LOST),
    EndState.BOOT_FAIL: (LOST, "A node of the job could not be started"),
    EndState.OUT_OF_MEMORY: ("JobOutOfMemory", "The job used more memory than Slurm gave it"),
    EndState.PREEMPTED: ("JobPreempted", "Slurm took the job's nodes for another job"),
    EndState.LAUNCH_FAILED: ("JobLaunchFailed", "Slurm could not start the job on its nodes"),
    EndState.REVOKED: ("JobTerminated", "The job was revoked in Slurm"),
    EndState.GONE: ("JobSupervisorLost", "Slurm no longer knows the job, and it reported no status"),
}


def end_state_of(state: str) -> EndState | None:
    """The final state in Slurm's text; None for a pending or running job.

    `CANCELLED by 1000` and `CANCELLED+` are CANCELLED.
    """
    word = state.partition(" ")[0].rstrip("+")
    return EndState(word) if word in {state_value.value for state_value in EndState} else None


def outcome_of(ending: EndState, *, reason: str = "") -> Outcome:
    """The outcome of a job that recorded none itself; `reason` is why it was asked to end, if it was."""
    if reason and reason != REQUEUE:
        return stop_outcome(reason)
    code, text = _ERRORS[ending]
    return failed_with(code, text)


FENCE_S = 10.0  # how long an unreachable program may take to notice that it is superseded
_POLL_S = 0.1
_REASONS = {
    "JOB REQUEUE": "somebody had Slurm queue it again",
    "PREEMPTION": "Slurm took its nodes for another job",
    "NODE FAILURE": "Slurm lost a node of it",
}
_ENDINGS = {
    "PREEMPTION": EndState.PREEMPTED,
    "TIME LIMIT": EndState.TIMEOUT,
    "NODE FAILURE": EndState.NODE_FAIL,
}
# a limit enforced by Slurm's accounting, or by the kernel through a cgroup
_MEMORY = re.compile(r"exceeded (?:job |step )?memory limit|oom[-_]kill event", re.IGNORECASE)
_CANCELLED = re.compile(r"\*\*\* JOB \S+ ON \S+ CANCELLED AT \S+ DUE TO ([A-Z ]+?)(?:, SEE .*)? \*\*\*")


class RunningAttempt:
    """The attempt that this program runs."""

    def __init__(self, files: RunFiles, attempt: int) -> None:
        self._files, self.submission = files, attempt
        self.restarts = int(os.environ.get("SLURM_RESTART_COUNT", "0"))
        self.reason = ""  # why it ended; empty: as Slurm reports
        self._previous = files.attempts()

    @property
    def number(self) -> int:
        """The number of the attempt among those of the run, from 1."""
        return len(self._previous) + 1

    @property
    def is_superseded(self) -> bool:
        """Whether a later attempt has started: nodes and files no longer belong to this program."""
        return self._files.is_superseded(self.submission, self.restarts)

    def start(self, nodes: Sequence[str]) -> None:
        """Records the start, and waits a limited time until the previous attempt has ended."""
        job = os.environ["SLURM_JOB_ID"]
        self._files.note_attempt_start(
            self.submission, AttemptStart(job, tuple(nodes), time.time(), self.restarts)
        )
        deadline = time.monotonic() + FENCE_S
        while self.previous_end == NOT_REPORTED and time.monotonic() < deadline:
            time.sleep(_POLL_S)

    def record_end(self) -> None:
        """Records that the attempt ended and the run has not; an earlier record takes precedence."""
        words = self.reason or _REASONS.get(batch_log_text(self._files.batch_log), _REASONS["JOB REQUEUE"])
        self._files.note_attempt_end(self.submission, self.restarts, AttemptNote(words, time.time()))

    @property
    def previous_end(self) -> str:
        """Why the previous attempt ended, known once this one has started; empty for the first."""
        return self._files.attempts()[self.number - 2].reason if self._previous else ""


def batch_log_text(batch_log: Path) -> str:
    """Slurm's latest reason for cancelling the script, in its words; empty without one."""
    reasons = _CANCELLED.findall(log_text(batch_log))
    return reasons[-1] if reasons else ""


def logged_end(batch_log: Path) -> EndState | None:
    """The end of the script, according to Slurm's messages in its log; None if there are none."""
    return (
        EndState.OUT_OF_MEMORY
        if _MEMORY.search(log_text(batch_log))
        else _ENDINGS.get(batch_log_text(batch_log))
    )


def log_text(log: Path) -> str:
    """The end of a log; empty if there is none."""
    try:
        return tail_of(log)
    except OSError:
        return ""


# Exit codes of processes that were ended; any other code has its own reason.
_WAS_KILLED = (KILLED, TERMINATED, NO_CODE, None)
_OOM_MESSAGE = re.compile("memory|oom", re.IGNORECASE)
# srun messages that explain nothing
_UNINFORMATIVE = re.compile("Exited with exit code|launch/slurm: |Terminated|cpu binding|couldn't chdir")
# Messages about the end of a step: they may precede, in any order, the message with its cause.
_STEP_ENDED = re.compile(r"CANCELLED AT|Job step aborted|: Killed$")
# srun's report that tasks have ended, such as `srun: error: node2: tasks 2-3: Killed`
_TASKS_ENDED = re.compile(r"^srun: error: \S+: tasks? (?P<tasks>[\d,-]+): (?P<how>.+)$", re.MULTILINE)
# srun names a plugin that it does not have; only slurmstepd's log explains one that fails on a node.
_MPI_FAILURE = re.compile(r"\bmpi\b|launch failed: Unspecified error", re.IGNORECASE)
_PREFIX = re.compile(r"^(?:srun|slurmstepd\S*): (?:error: )?")


def oom_kills(counters: Path = Path("/proc/vmstat")) -> int:
    """How many processes the kernel of this node has killed since boot because it was out of memory."""
    try:
        match = re.search(r"^oom_kill (\d+)$", counters.read_text(encoding="ascii"), re.MULTILINE)
    except OSError:
        return 0
    return int(match[1]) if match else 0


def with_orphans(outcome: Outcome, plan: Plan, ranks: Sequence[int]) -> Outcome:
    """The outcome of processes some of which lost their slurmstepd."""
    nodes = dict.fromkeys(plan.node_of(plan.processes[rank]).id for rank in ranks)
    text = f"slurmstepd, which runs the job's processes on {', '.join(nodes)}, was killed"
    details = {"failedRank": ranks[0], "failedNode": next(iter(nodes))}
    failed = failed_with("JobFailed", text, KILLED, **details)
    return failed._replace(ranks=_failed_first(outcome.ranks, ranks))


def with_kill_reason(
    outcome: Outcome, plan: Plan, log: Path, *, ended_on_their_own: Collection[int]
) -> Outcome:
    """The outcome of processes on several nodes, with the reason why they were killed, if known.

    `log` contains srun's messages. The exits of ranks that did not end on their own explain nothing: Slurm
    ends the others when some are killed.
    """
    if outcome.exit_code not in _WAS_KILLED or outcome.is_success:
        return outcome
    if logged_end(log) is EndState.OUT_OF_MEMORY:
        return out_of_memory(outcome, _first_line(log, _OOM_MESSAGE.search))
    if killed := RankMark.OUT_OF_MEMORY.numbers(plan):
        return out_of_memory(outcome, kernel_reason(plan.node_of(plan.processes[killed[0]]).id))

    def is_informative(line: str) -> bool:
        return not _UNINFORMATIVE.search(line)

    def is_cause(line: str) -> bool:
        return is_informative(line) and not _STEP_ENDED.search(line)

    message = _first_line(log, is_cause) or _first_line(log, is_informative)
    if failure := _launch_failure(outcome, plan, message):
        return failure
    first = _killed_first(log, outcome)
    return outcome if ended_on_their_own and not first else _killed(outcome, message, first)


def _launch_failure(outcome: Outcome, plan: Plan, message: str) -> Outcome | None:
    """The outcome if Slurm did not start all ranks and no other rank explains the failure."""
    started = RankMark.STARTED.numbers(plan)
    unstarted = [process for process in plan.processes if process.rank not in started]
    if len(unstarted) == len(plan.processes):
        return failed_with("JobLaunchFailed", _sentence("Slurm ran none of the job's processes", message))
    if not (unstarted and message and outcome.exit_code in (NO_CODE, None)):
        return None
    named = ", ".join(f"{process.rank} ({plan.node_of(process).id})" for process in unstarted)
    text = _sentence(f"Slurm did not run rank {named}", message)
    return failed_with("JobLaunchFailed", text, outcome.exit_code)._replace(ranks=outcome.ranks)


def with_mpi_plugins(outcome: Outcome, mpi: str, plugins: Callable[[], Sequence[str]]) -> Outcome:
    """The outcome of MPI ranks; if Slurm could not start them for `srun --mpi=`, it names the plugins."""
    if not any(
        error["code"] == "JobLaunchFailed" and _MPI_FAILURE.search(error["message"])
        for error in outcome.errors
    ):
        return outcome
    listed = ", ".join(plugins())
    plugin_words = (
        f"This Slurm has these plugins: {listed}" if listed else "List Slurm's plugins with srun --mpi=list"
    )
    hint = f"MPI ranks on several nodes were started with the setting slurm.mpi: {mpi}. {plugin_words}"
    return outcome._replace(
        errors=tuple({**error, "message": f"{error['message']}. {hint}"} for error in outcome.errors)
    )


def out_of_memory(outcome: Outcome, message: str) -> Outcome:
    """The outcome of a job that ran out of memory."""
    (error,) = outcome_of(EndState.OUT_OF_MEMORY).errors
    details = [detail for error in outcome.errors for detail in error.get("details", ())]
    error_with_reason = {
        **error,
        "message": f"{error['message']}. {message}" if message else error["message"],
    }
    return outcome._replace(
        errors=({**error_with_reason, "details": details} if details else error_with_reason,)
    )


def kernel_reason(node: str) -> str:
    """The explanation if only the kernel counted an OOM kill."""
    return f"The kernel of {node} killed a process because memory ran out"


def _killed(outcome: Outcome, message: str, first: Collection[int]) -> Outcome:
    """The outcome if no process ended on its own, and some did not report their exit codes.

    The ranks that srun reports as killed `first`, else all silent ones, failed first: Slurm ended the others.
    """
    silent = [rank.rank for rank in outcome.ranks if rank.exit_code is None]
    named = sorted(first or silent)
    is_all = len(named) in (0, len(outcome.ranks))
    nodes = {rank.rank: rank.node for rank in outcome.ranks}
    listed = ", ".join(f"{rank} on {nodes[rank]}" for rank in named)
    subject = "All processes of the job" if is_all else f"Processes of the job (rank {listed})"
    text = f"{subject} were killed before they could report how they ended: by a user, such as"
    text += " with scancel, or because a node was short of memory"
    text = f"{text}. Slurm said: {message}" if message else text
    details = {} if is_all else {"failedRank": str(named[0]), "failedNode": nodes[named[0]]}
    killed = failed_with("JobFailed", text, KILLED, **details)
    return killed._replace(ranks=_failed_first(outcome.ranks, () if is_all else named))


def _failed_first(ranks: Sequence[ProcessExit], killed: Collection[int]) -> tuple[ProcessExit, ...]:
    """The exits of ranks, beginning with the killed ones."""
    first = [rank._replace(exit_code=KILLED) for rank in ranks if rank.rank in killed]
    return (*first, *(rank for rank in ranks if rank.rank not in killed))


def _killed_first(log: Path, outcome: Outcome) -> list[int]:
    """The silent ranks that srun reports as killed, if that is the first end of ranks that it reports."""
    match = _TASKS_ENDED.search(log_text(log))
    if not match or not match["how"].startswith("Killed"):
        return []
    bounds = (part.partition("-") for part in match["tasks"].split(","))
    tasks = {task for low, _, high in bounds for task in range(int(low), int(high or low) + 1)}
    return [rank.rank for rank in outcome.ranks if rank.exit_code is None and rank.rank in tasks]


def _sentence(text: str, message: str) -> str:
    return f"{text}: {message}" if message else text


def _first_line(log: Path, matches: Callable[[str], object]) -> str:
    """The first matching line of a log; empty without one."""
    lines = (line for line in log_text(log).splitlines() if line.strip() and matches(line))
    return next((_PREFIX.sub("", line.strip()) for line in lines), "")
