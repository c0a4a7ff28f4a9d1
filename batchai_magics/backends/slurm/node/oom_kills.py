"""Explains why a job's processes were killed, from Slurm's messages and the kernel's OOM counter."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from pathlib import Path

from batchai_magics.backends.node.outcome import NO_CODE, Outcome, failed_with
from batchai_magics.backends.slurm.node.attempt import logged_end
from batchai_magics.backends.slurm.node.end_states import EndState, outcome_of
from batchai_magics.launch.plan import Plan

KILLED = 128 + signal.SIGKILL
# Exit codes of processes that were ended; any other code has its own reason.
_WAS_KILLED = (KILLED, 128 + signal.SIGTERM, NO_CODE, None)
_COUNTER = Path("/proc/vmstat")
_MEMORY = re.compile("memory|oom", re.IGNORECASE)
# srun messages that explain nothing
_UNINFORMATIVE = re.compile("Exited with exit code|launch/slurm: |Terminated|cpu binding|couldn't chdir")
_PREFIX = re.compile(r"^(?:srun|slurmstepd\S*): (?:error: )?")


def oom_kills() -> int:
    """How many processes the kernel of this node has killed since boot because it was out of memory."""
    try:
        found = re.search(r"^oom_kill (\d+)$", _COUNTER.read_text(encoding="ascii"), re.MULTILINE)
    except OSError:
        return 0
    return int(found[1]) if found else 0


def started_folder(plan: Plan) -> Path:
    """Contains an empty file for each rank whose program has started."""
    return Path(f"{plan.exits}.started")


def out_of_memory_folder(plan: Plan) -> Path:
    """Contains an empty file for each rank that was killed when its node was out of memory."""
    return Path(f"{plan.exits}.out-of-memory")


def with_kill_reason(outcome: Outcome, plan: Plan, log: Path) -> Outcome:
    """The outcome of processes on several nodes, with the reason why they were killed, if known.

    `log` contains srun's messages.
    """
    if outcome.exit_code not in _WAS_KILLED or outcome.is_success:
        return outcome
    if logged_end(log) is EndState.OUT_OF_MEMORY:
        return out_of_memory(outcome, _first_line(log, _MEMORY.search))
    out_of_memory_ranks = sorted(int(file.name) for file in out_of_memory_folder(plan).iterdir())
    if out_of_memory_ranks:
        return out_of_memory(outcome, kernel_reason(plan.node_of(plan.processes[out_of_memory_ranks[0]]).id))
    message = _first_line(log, lambda line: not _UNINFORMATIVE.search(line))
    if failure := _launch_failure(outcome, plan, message):
        return failure
    has_exited = any(rank.exit_code is not None for rank in outcome.ranks)
    return outcome if has_exited else _all_killed(outcome, message)


def _launch_failure(outcome: Outcome, plan: Plan, message: str) -> Outcome | None:
    """The outcome if Slurm did not start all ranks and no other rank explains the failure."""
    unstarted = [p for p in plan.processes if not (started_folder(plan) / str(p.rank)).exists()]
    if len(unstarted) == len(plan.processes):
        return failed_with("JobLaunchFailed", _sentence("Slurm ran none of the job's processes", message))
    if not (unstarted and message and outcome.exit_code in (NO_CODE, None)):
        return None
    named = ", ".join(f"{process.rank} ({plan.node_of(process).id})" for process in unstarted)
    failure = failed_with("JobLaunchFailed", _sentence(f"Slurm did not run rank {named}", message))
    return failure._replace(exit_code=outcome.exit_code, ranks=outcome.ranks)


def out_of_memory(outcome: Outcome, message: str) -> Outcome:
    """The outcome of a job that ran out of memory."""
    (error,) = outcome_of(EndState.OUT_OF_MEMORY).errors
    details = [detail for each in outcome.errors for detail in each.get("details", ())]
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


def _all_killed(outcome: Outcome, message: str) -> Outcome:
    """The outcome if no process reported its exit code."""
    text = "All processes of the job were killed before they could report how they ended: by a user, such as"
    text += " with scancel, or because a node was short of memory"
    killed = failed_with("JobFailed", f"{text}. Slurm said: {message}" if message else text)
    return killed._replace(exit_code=KILLED, ranks=outcome.ranks)


def _sentence(text: str, message: str) -> str:
    return f"{text}: {message}" if message else text


def _first_line(log: Path, matches: Callable[[str], object]) -> str:
    """The first matching line of a log; empty without one."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return next((_PREFIX.sub("", line.strip()) for line in lines if line.strip() and matches(line)), "")
