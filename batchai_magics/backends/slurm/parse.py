"""Parses the output of Slurm's commands: job and node tables, configuration, errors. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import NamedTuple

from batchai_magics.backends.slurm.node.attempt_ends import EndState, end_state_of
from batchai_magics.errors import CapabilityError, ServiceError
from batchai_magics.models.states import NodeState

SEPARATOR = "\x1f"  # occurs in no name, nor in reasons that people write
JOB_FIELDS = ("%i", "%T", "%r", "%S", "%N", "%k")
PAST_FIELDS = ("JobID", "State", "ExitCode", "Submit", "End", "JobName", "Comment")
NODE_FIELDS = ("%N", "%P", "%T", "%c", "%l", "%E", "%f", "%G", "%s")
OLDEST = (20, 11)  # older versions have other states and formats


class SlurmJob(NamedTuple):
    """A job in Slurm's controller or, once that has forgotten it, in the accounting database.

    Times are in seconds since 1970, 0.0 if they are unknown.
    """

    number: str
    state: str  # PENDING, RUNNING, …; in the database, `CANCELLED by 1000` includes who cancelled it
    reason: str = ""  # why it is pending
    start: str = ""  # when Slurm expects it to start, or `N/A`
    nodes: str = ""
    comment: str = ""  # the guid of its run; not every database stores it
    reported: float = 0.0  # when Slurm reported this
    exit_code: str = ""  # exit code of its batch script and the signal that ended it: `3:0`
    submitted: float = 0.0
    ended: float = 0.0
    name: str = ""

    @property
    def is_starting(self) -> bool:
        """Whether it runs, or is pending for no known reason."""
        return self.state == "RUNNING" or (self.state == "PENDING" and self.reason == "None")

    @property
    def end_state(self) -> EndState | None:
        """The state in which it ended; None if it has not."""
        return end_state_of(self.state)

    @property
    def first_node(self) -> str:
        """The first of its nodes, which runs its script; empty before allocation."""
        match = re.match(r"([^,\[]+)(?:\[(\d+))?", self.nodes)
        return "".join(match.groups("")) if match else ""

    @property
    def description(self) -> str:
        """How it ended, a sentence without its period: `Slurm's accounting says FAILED with exit code 3`."""
        match = re.fullmatch(r"(\d+):(\d+)", self.exit_code)
        code, signal = map(int, match.groups()) if match else (0, 0)
        state = re.sub(r" by (\d+)$", r" by the user with number \1", self.state)
        words = f"{state}{f' with exit code {code}' * bool(code)}{f' by signal {signal}' * bool(signal)}"
        return f"Slurm's accounting says {words}"


UNKNOWN_JOB = SlurmJob("", "")  # stands for a job that Slurm does not know


class NodeLine(NamedTuple):
    """A node in a partition as listed by sinfo."""

    name: str
    partition: str
    state: str  # in Slurm's spelling, with suffix
    cores: int
    limit: str  # of the partition: `1-00:00:00`, `infinite`
    reason: str  # why it is unusable; `none` if it is usable
    is_default: bool  # whether the partition is Slurm's default one
    features: str = ""  # for `--constraint`: `a100,nvlink`
    gres: str = ""  # for `--gres`: `gpu:a100:4(S:0-1),shard:8`
    job_size: str = ""  # nodes per job in the partition: `1-4`, `1-infinite`

    @property
    def is_usable(self) -> bool:
        """Whether jobs can use it, now or later."""
        return node_state(self.state) is not NodeState.UNUSABLE


# States of a job that waits for nodes.
WAITING_STATES = {"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"}
# The state of a node, by the first word of Slurm's state without its suffix.
_NODE_STATES = {
    **dict.fromkeys(("idle", "planned", "npc"), NodeState.IDLE),
    **dict.fromkeys(("allocated", "mixed", "completing", "reserved", "blocked"), NodeState.RUNNING),
    **dict.fromkeys(("powering_up", "reboot", "configuring"), NodeState.PREPARING),
    **dict.fromkeys(("powering_down", "powered_down", "power_down"), NodeState.LEAVING),
}
# Powered-down nodes can be woken: `idle~` counts as idle. The other suffixes name an operation in progress.
_SUFFIXES = {
    "#": NodeState.PREPARING,
    "%": NodeState.LEAVING,
    "!": NodeState.LEAVING,
    "*": NodeState.UNUSABLE,
}


# Why a job is pending, by Slurm's reason; other reasons are shown as they are.
_REASONS = {
    "None": "",
    "Resources": "too few of its nodes are free",
    "Priority": "other jobs are ahead of it in Slurm's queue",
    "Dependency": "its previous attempt is still ending",
    "JobHeldUser": "it is held: resize the cluster if that is too small, or use scontrol release",
    "JobHeldAdmin": "an administrator of Slurm holds it",
    "BeginTime": "the time at which it may begin has not come",
    "Reservation": "its reservation has not begun",
    "ReservationDeleted": "its reservation was deleted, and it is held: use scontrol release",
    "Licenses": "a licence that it needs is taken",
    "PartitionDown": "its partition is down",
    "PartitionInactive": "its partition is closed",
    "PartitionNodeLimit": "it requests more nodes than its partition allows",
    "PartitionTimeLimit": "it requests more time than its partition allows",
    "BadConstraints": "no node meets its requirements",
    "NodeDown": "a node that it needs is down",
    "ReqNodeNotAvail": "nodes that it needs cannot be used now",
    "Nodes required for job are DOWN": "nodes that it needs are down, drained or reserved",
    "job requeued in held state": "it was queued again and is held: use scontrol release",
    "launch failed requeued held": "Slurm could not start it, and holds it",
}
_QUEUE_REASONS = ("Resources", "Priority")
MAX_START_DELAY = timedelta(days=90)  # for a job without a time limit Slurm assumes a year
_UNREACHABLE = (
    "Unable to contact slurm controller",
    "Connection refused",
    "Socket timed out",
    "Zero Bytes were transmitted",
)
_LIMITS = re.compile(r"(Assoc|QOS)\w*")
_START = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)")


def pending_reason(line: SlurmJob, *, is_chained: bool = False) -> str:
    """Why a job is pending and when Slurm expects it to start; empty if Slurm does not know.

    Expected starts a year after the query are ignored. `is_chained`: it is the first attempt of a job that
    starts after others, which the service names.
    """
    if line.state == "CONFIGURING":
        return "its nodes are being started"
    if line.state not in WAITING_STATES:
        return ""
    words = "" if is_chained and line.reason == "Dependency" else _reason_text(line.reason)
    return "; ".join(filter(None, (words, _expected_start(line))))


def _expected_start(line: SlurmJob) -> str:
    start = _START.fullmatch(line.start)
    if not start:
        return ""
    begins = datetime.fromisoformat(line.start).replace(tzinfo=timezone.utc)  # the time zone hardly matters
    reported = datetime.fromtimestamp(line.reported, timezone.utc)
    is_far = line.reported and begins - reported > MAX_START_DELAY
    if is_far and line.reason.partition(",")[0] in _QUEUE_REASONS:
        return "when it starts is not known: a job ahead of it has no time limit"
    return f"Slurm expects it to start on {start[1]} at {start[2]}"


def _reason_text(reason: str) -> str:
    word = reason.partition(",")[0].split("(")[0].strip().replace("_", " ")
    if word in _REASONS:
        return _REASONS[word]
    if _LIMITS.fullmatch(word):
        return f"a limit of your {'account' if word.startswith('Assoc') else 'QOS'} is reached ({word})"
    return f"Slurm says {reason}" if word else ""


def node_state(text: str) -> NodeState:
    """The state of a node; drained, down, unresponsive and unknown ones are unusable."""
    word, suffix = re.fullmatch(r"([A-Za-z_]*)(.*)", text.strip()).groups()  # type: ignore[union-attr]
    for sign in suffix:
        if sign in _SUFFIXES:
            return _SUFFIXES[sign]
    return _NODE_STATES.get(word.lower(), NodeState.UNUSABLE)


def job_number(text: str) -> str:
    """The job number in the output of `sbatch --parsable`: `12` or `12;cluster`."""
    return text.strip().splitlines()[-1].partition(";")[0] if text.strip() else ""


def jobs(text: str) -> dict[str, SlurmJob]:
    """Parses the output of squeue, by job number."""
    return {
        number: SlurmJob(number, state, reason, start, nodes, comment)
        for number, state, reason, start, nodes, comment in _rows(text, len(JOB_FIELDS))
    }


def past_jobs(text: str) -> list[SlurmJob]:
    """Parses the output of sacct, in its order."""
    return [
        SlurmJob(
            number,
            state,
            comment=comment,
            exit_code=code,
            submitted=float(submit) if submit.isdigit() else 0.0,  # `Unknown`
            ended=float(end) if end.isdigit() else 0.0,
            name=name,
        )
        for number, state, code, submit, end, name, comment in _rows(text, len(PAST_FIELDS))
    ]


def nodes(text: str) -> list[NodeLine]:
    """Parses the output of sinfo."""
    return [
        NodeLine(
            name,
            partition.rstrip("*"),
            state,
            _count(cores),
            limit,
            reason,
            partition.endswith("*"),
            *details,
        )
        for name, partition, state, cores, limit, reason, *details in _rows(text, len(NODE_FIELDS))
    ]


def check_version(text: str) -> None:
    """Raises a CapabilityError if `sinfo --version` (`slurm 22.05.8`) names a version that is too old."""
    match = re.search(r"(\d+)\.(\d+)", text)
    if match and (int(match[1]), int(match[2])) < OLDEST:
        oldest = ".".join(f"{part:02}" for part in OLDEST)
        hint = f"Slurm {oldest} or newer is needed: ask your administrators. Nothing was submitted."
        raise CapabilityError(f"this Slurm is too old: {text.strip()}", code="NotSupported", hint=hint)


def configuration(text: str) -> dict[str, str]:
    """Parses the output of `scontrol show config`, by name."""
    return dict(re.findall(r"^(\w+)[ \t]*=[ \t]*(.*?)[ \t]*$", text, re.MULTILINE))


def minutes(limit: str) -> int | None:
    """A time limit (`1-00:00:00`, `30:00`, `infinite`) in whole minutes; None for no limit."""
    match = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", limit.strip())
    if not match:
        return None
    days, hours, mins, _ = (int(part or 0) for part in match.groups())
    return (days * 24 + hours) * 60 + mins


def service_error(program: str, words: str) -> ServiceError:
    """The error for a failed Slurm command, with Slurm's own message."""
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    message = "; ".join(line.removeprefix(f"{program}: ").removeprefix("error: ") for line in lines)
    is_down = any(text in words for text in _UNREACHABLE)
    code = "SlurmUnavailable" if is_down else "SlurmRefused"
    hint = "Slurm's controller is down: try again later." if is_down else "Nothing was submitted."
    return ServiceError(f"Slurm refused ({program}): {message or 'no message'}", code=code, hint=hint)


def _rows(text: str, count: int) -> Iterator[list[str]]:
    for line in text.splitlines():
        fields = line.split(SEPARATOR)
        if len(fields) == count:
            yield [field.strip() for field in fields]


def _count(text: str) -> int:
    """The number in a column: `64`, or `64+` where nodes differ."""
    digits = re.match(r"\d+", text)
    return int(digits[0]) if digits else 1
