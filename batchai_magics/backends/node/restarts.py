"""Restarts of a run: which ends start another attempt, the warning before, and execution.log."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from pathlib import Path

from batchai_magics.backends.node.outcome import KILLED, failed_with
from batchai_magics.backends.node.ranks.leftovers import LiveProcess, read_proc
from batchai_magics.backends.node.ranks.output_streams import TIME
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import LogPaths, Plan
from batchai_magics.untrusted_files import opener


class ExecutionLog:
    """Appends timestamped lines to the log of every node."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = [Path(path) for path in paths]

    def write(self, sentence: str) -> None:
        """Appends a line to every node's log. A full disk loses the line, not the job."""
        now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        for path in self._paths:
            with contextlib.suppress(OSError), open(path, "a", encoding="utf-8", opener=opener) as file:
                file.write(f"{now} {sentence}\n")


RESIZED = "its nodes left the cluster"


def mark_attempt(log: LogPaths, number: int, nodes: Sequence[str], reason: str) -> str:
    """Marks in a log where and when an attempt starts and why the previous one ended; returns the sentence.

    A full disk loses the line, not the job.
    """
    sentence = f"attempt {number} begins on {', '.join(nodes)}: {reason}"
    with contextlib.suppress(OSError), Path(log.path).open("ab+") as file:
        end = file.seek(0, os.SEEK_END)
        if log.times:
            with open(log.times, "ab", opener=opener) as times:
                times.write(TIME.pack(end, time.time()))
        file.seek(max(0, end - 1))
        separator = "" if file.read(1) in (b"", b"\n") else "\n"
        file.write(f"{separator}[batchai] {sentence}\n".encode())
    return sentence


ATTEMPT = "BATCHAI_ATTEMPT"
STOPPING_FILE = "BATCHAI_STOPPING_FILE"
SEEN = ".seen"  # suffix of the file that `stopping` creates when it first returns True
UNFINISHED = os.EX_TEMPFAIL  # exit code of a warned process that wants to continue in the next attempt
MAX_NOTICE_S = 30.0  # the longest warning before a preemption, as on Azure
TIME_LIMIT = "it reached its time limit"
_REASONS = {
    "JobMaxWallClockTimeReached": TIME_LIMIT,
    "JobNodeLost": "a node of it was lost",
    "JobPreempted": "its nodes were taken for another job",
    "JobSupervisorLost": "its supervisor disappeared",
}


def with_attempt(plan: Plan, number: int, root: Path) -> Plan:
    """The plan with the variables of an attempt; `root` is the run's folder."""
    variables = {ATTEMPT: str(number), STOPPING_FILE: str(root / f"stopping-{number}")}

    def with_variables(part: Plan) -> Plan:
        return part._replace(nodes=tuple(node._replace(env={**node.env, **variables}) for node in part.nodes))

    return plan.changed(with_variables)


def with_attempt_exits(plan: Plan, number: int, root: Path) -> Plan:
    """As `with_attempt`, with a folder for exits that no earlier attempt has used."""
    planned = plan if number == 1 else plan._replace(exits=f"{plan.exits}-{number}")
    return with_attempt(planned, number, root)


class EndWarning:
    """The warning of an attempt's processes before it ends, given once; `reason` is why it will end.

    `is_requeued` is whether the engine queues the run again, regardless of its limit of restarts.
    """

    def __init__(self, plan: Plan) -> None:
        self._file = Path(plan.nodes[0].env.get(STOPPING_FILE, ""))
        self.notice_s = plan.limits.warn_s
        self.reason = ""
        self.is_requeued = False

    @property
    def is_announced(self) -> bool:
        """Whether this program or another one gave the warning."""
        return self._file.exists()

    @property
    def is_seen(self) -> bool:
        """Whether a process of the attempt has noticed the warning."""
        return self._file.with_name(self._file.name + SEEN).exists()

    def give(self, reason: str, processes: Iterable[LiveProcess]) -> None:
        """Creates the warning's file, and signals the processes."""
        self.reason = reason
        with contextlib.suppress(OSError):  # a full disk: the signal remains
            self._file.touch(mode=0o600)
        send_sigusr1(processes)


def send_sigusr1(processes: Iterable[LiveProcess]) -> None:
    """Sends SIGUSR1 to those processes that handle it; it would kill the others."""
    for process in processes:
        # empty if the process has ended, or on systems other than Linux
        status = read_proc(f"/proc/{process.pid}/status")
        mask = status.partition(b"SigCgt:")[2].split(maxsplit=1)[:1]
        if mask and int(mask[0], 16) >> (signal.SIGUSR1 - 1) & 1:
            process.send(signal.SIGUSR1)


def with_restart(outcome: Outcome, plan: Plan, number: int, warning: EndWarning | None = None) -> Outcome:
    """The outcome, changed to a requeue if another attempt is to follow attempt `number`.

    When no restart remains, a requeue by the engine becomes a failure, and so does a run whose processes
    stopped early.
    """
    limit = plan.limits.max_restarts
    is_last = limit is not None and number > limit
    if outcome.is_requeued:
        is_counted = outcome.reason not in ("", RESIZED)
        return _used_up("JobPreempted", outcome.reason, number) if is_last and is_counted else outcome
    if is_last and warning and _stopped_early(outcome, warning):
        code = "JobMaxWallClockTimeReached" if warning.reason == TIME_LIMIT else "JobPreempted"
        return _used_up(code, warning.reason, number)._replace(ranks=outcome.ranks)
    is_allowed = bool(warning and warning.is_requeued) if limit is None else number <= limit
    if not is_allowed:
        return outcome
    reason = _reason(outcome, plan, warning)
    return outcome._replace(is_requeued=True, reason=reason) if reason else outcome


def _used_up(code: str, reason: str, number: int) -> Outcome:
    """The failure of a run that would continue if it had a restart left."""
    times = "once" if number == 2 else f"{number - 1} times"
    return failed_with(code, f"{reason[:1].upper()}{reason[1:]}; it has been restarted {times}")


def _reason(outcome: Outcome, plan: Plan, warning: EndWarning | None) -> str:
    """Why a run continues in another attempt; empty if it does not."""
    if warning and warning.reason and (outcome.exit_code == UNFINISHED or _stopped_early(outcome, warning)):
        return warning.reason
    if plan.containers.removals and outcome.exit_code == KILLED:
        return "a container of it was killed"
    codes = (error["code"] for error in outcome.errors)
    return next((_REASONS[code] for code in codes if code in _REASONS), "")


def _stopped_early(outcome: Outcome, warning: EndWarning) -> bool:
    """Whether the processes ended because `stopping` returned True, not because they were done."""
    return bool(warning.reason) and outcome.is_success and warning.is_seen
