"""Why the processes of a job were killed, as far as Slurm's words and the kernel's counter tell."""

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
# Exit codes of processes that did not end by themselves; a failure with another one has its own reason.
_ENDED = (KILLED, 128 + signal.SIGTERM, NO_CODE, None)
_COUNTER = Path("/proc/vmstat")
_MEMORY = re.compile("memory|oom", re.IGNORECASE)
# What srun says of any end, and of folders that only its own machine has.
_MERE_END = re.compile("Exited with exit code|launch/slurm: |Terminated|cpu binding|couldn't chdir")
_PREFIX = re.compile(r"^(?:srun|slurmstepd\S*): (?:error: )?")


def oom_kills() -> int:
    """How many processes the kernel of this node has killed for want of memory since it was started."""
    try:
        found = re.search(r"^oom_kill (\d+)$", _COUNTER.read_text(encoding="ascii"), re.MULTILINE)
    except OSError:
        return 0
    return int(found[1]) if found else 0


def started_folder(plan: Plan) -> Path:
    """One empty file for each rank whose program has started."""
    return Path(f"{plan.exits}.started")


def out_of_memory_folder(plan: Plan) -> Path:
    """One empty file for each rank that was killed when its node was out of memory."""
    return Path(f"{plan.exits}.out-of-memory")


def explained(outcome: Outcome, plan: Plan, log: Path) -> Outcome:
    """The outcome of processes on several nodes with what is known of why they were killed.

    `log` has what srun said.
    """
    if outcome.exit_code not in _ENDED or outcome.is_success:
        return outcome
    if logged_end(log) is EndState.OUT_OF_MEMORY:
        return out_of_memory(outcome, _words(log, _MEMORY.search))
    starved = sorted(int(file.name) for file in out_of_memory_folder(plan).iterdir())
    if starved:
        return out_of_memory(outcome, of_kernel(plan.node_of(plan.processes[starved[0]]).id))
    if any(rank.exit_code is not None for rank in outcome.ranks):
        return outcome
    return _without_a_word(outcome, plan, log)


def out_of_memory(outcome: Outcome, words: str) -> Outcome:
    """The outcome as one of a job that had too little memory."""
    (error,) = outcome_of(EndState.OUT_OF_MEMORY).errors
    details = [detail for each in outcome.errors for detail in each.get("details", ())]
    told = {**error, "message": f"{error['message']}. {words}" if words else error["message"]}
    return outcome._replace(errors=({**told, "details": details} if details else told,))


def of_kernel(node: str) -> str:
    """What is known where only the kernel has counted that it killed a process."""
    return f"The kernel of {node} killed a process for want of memory"


def _without_a_word(outcome: Outcome, plan: Plan, log: Path) -> Outcome:
    """The outcome of processes none of which has told how it ended."""
    words = _words(log, lambda line: not _MERE_END.search(line))
    if not any(started_folder(plan).iterdir()):
        text = f"Slurm ran none of the job's processes{f': {words}' if words else ''}"
        return failed_with("JobLaunchFailed", text)
    text = "All processes of the job were killed before they could tell how they ended: by somebody, such as"
    text += " with scancel, or because a node was short of memory"
    killed = failed_with("JobFailed", f"{text}. Slurm said: {words}" if words else text)
    return killed._replace(exit_code=KILLED, ranks=outcome.ranks)


def _words(log: Path, is_wanted: Callable[[str], object]) -> str:
    """The first line of a log that is wanted; empty where there is none."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return next((_PREFIX.sub("", line.strip()) for line in lines if line.strip() and is_wanted(line)), "")
