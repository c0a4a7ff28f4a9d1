"""The output of Slurm's commands as values: job and node tables, configuration, refusals. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import NamedTuple

from batchai_magics.backends.slurm.cli_args import JOB_FIELDS, NODE_FIELDS, SEPARATOR
from batchai_magics.errors import CapabilityError, ServiceError
from batchai_magics.models.states import NodeState

OLDEST = (20, 11)  # versions before it have other states and formats


class JobLine(NamedTuple):
    """A job as squeue tells it."""

    number: str
    state: str  # PENDING, RUNNING, …
    reason: str  # why it waits
    start: str  # when Slurm expects it to start, or `N/A`
    nodes: str
    comment: str  # the guid of the run that it is an attempt at

    @property
    def is_starting(self) -> bool:
        """Whether it runs, or Slurm knows nothing for it to wait for."""
        return self.state == "RUNNING" or (self.state == "PENDING" and self.reason == "None")

    @property
    def first_node(self) -> str:
        """The first of its nodes, which runs its script; empty before it has any."""
        match = re.match(r"([^,\[]+)(?:\[(\d+))?", self.nodes)
        return "".join(match.groups("")) if match else ""


class NodeLine(NamedTuple):
    """A node in a partition as sinfo tells it."""

    name: str
    partition: str
    state: str  # as Slurm spells it, with a suffix
    cores: int
    limit: str  # of the partition: `1-00:00:00`, `infinite`
    reason: str  # why it cannot be used; `none` when it can
    is_default: bool  # whether the partition is Slurm's default one
    features: str = ""  # what it may be chosen by: `a100,nvlink`
    gres: str = ""  # what may be asked of it: `gpu:a100:4(S:0-1),shard:8`
    job_size: str = ""  # how many nodes the partition gives a job: `1-4`, `1-infinite`

    @property
    def is_usable(self) -> bool:
        """Whether jobs can have it, now or later."""
        return node_state(self.state) is not NodeState.UNUSABLE


# A job that waits for nodes, for the first time or again.
WAITING_STATES = {"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"}
# What a node does, by the first word of its state without suffix.
_NODE_STATES = {
    **dict.fromkeys(("idle", "planned", "npc"), NodeState.IDLE),
    **dict.fromkeys(("allocated", "mixed", "completing", "reserved", "blocked"), NodeState.RUNNING),
    **dict.fromkeys(("powering_up", "reboot", "configuring"), NodeState.PREPARING),
    **dict.fromkeys(("powering_down", "powered_down", "power_down"), NodeState.LEAVING),
}
# A node that sleeps can be woken: `idle~` is as good as idle. The others say what is done with it just now.
_SUFFIXES = {
    "#": NodeState.PREPARING,
    "%": NodeState.LEAVING,
    "!": NodeState.LEAVING,
    "*": NodeState.UNUSABLE,
}


# Why a job waits, by the word that Slurm has for it; what is not here is told in Slurm's own.
_REASONS = {
    "None": "",
    "Resources": "too few of its nodes are free",
    "Priority": "other jobs are before it in Slurm's queue",
    "Dependency": "its attempt before this one is ending",
    "JobHeldUser": "it is held: resize the cluster if that is too small, or use scontrol release",
    "JobHeldAdmin": "an administrator of Slurm holds it",
    "BeginTime": "the time at which it may begin has not come",
    "Reservation": "its reservation has not begun",
    "ReservationDeleted": "its reservation was deleted, and it is held: use scontrol release",
    "Licenses": "a licence that it needs is taken",
    "PartitionDown": "its partition is down",
    "PartitionInactive": "its partition is closed",
    "PartitionNodeLimit": "it asks for more nodes than its partition gives a job",
    "PartitionTimeLimit": "it asks for more time than its partition gives a job",
    "BadConstraints": "no node has what it asks for",
    "NodeDown": "a node that it needs is down",
    "ReqNodeNotAvail": "nodes that it needs cannot be used now",
    "Nodes required for job are DOWN": "nodes that it needs are down, drained or reserved",
    "job requeued in held state": "it was queued again and is held: use scontrol release",
    "launch failed requeued held": "Slurm could not start it, and holds it",
}
_BEHIND_OTHERS = ("Resources", "Priority")
FAR = timedelta(days=90)  # Slurm counts a year, from its start, for a job without a time limit
_SILENCE = (
    "Unable to contact slurm controller",
    "Connection refused",
    "Socket timed out",
    "Zero Bytes were transmitted",
)
_LIMITS = re.compile(r"(Assoc|QOS)\w*")
_START = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)")


def waiting_words(line: JobLine, now: float | None = None) -> str:
    """Why a job waits, and when Slurm expects it to start; empty where Slurm does not say.

    `now` (seconds since 1970) is when it said so: a start that is a year off from then is none.
    """
    if line.state == "CONFIGURING":
        return "its nodes are being started"
    if line.state not in WAITING_STATES:
        return ""
    words = _reason_words(line.reason)
    return "; ".join(filter(None, (words, _start_words(line, now))))


def _start_words(line: JobLine, now: float | None) -> str:
    start = _START.fullmatch(line.start)
    if not start:
        return ""
    begins = datetime.fromisoformat(line.start).replace(tzinfo=timezone.utc)  # a zone more or less is nothing
    is_far = now is not None and begins - datetime.fromtimestamp(now, timezone.utc) > FAR
    if is_far and line.reason.partition(",")[0] in _BEHIND_OTHERS:
        return "when it starts is not known: a job before it has no time limit"
    return f"Slurm expects it to start on {start[1]} at {start[2]}"


def _reason_words(reason: str) -> str:
    word = reason.partition(",")[0].split("(")[0].strip().replace("_", " ")
    if word in _REASONS:
        return _REASONS[word]
    if _LIMITS.fullmatch(word):
        return f"a limit of your {'account' if word.startswith('Assoc') else 'QOS'} is reached ({word})"
    return f"Slurm says {reason}" if word else ""


def node_state(text: str) -> NodeState:
    """What a node does; one that drains, is down, does not answer, or is unheard of cannot be used."""
    word, suffix = re.fullmatch(r"([A-Za-z_]*)(.*)", text.strip()).groups()  # type: ignore[union-attr]
    for sign in suffix:
        if sign in _SUFFIXES:
            return _SUFFIXES[sign]
    return _NODE_STATES.get(word.lower(), NodeState.UNUSABLE)


def job_number(text: str) -> str:
    """The number in the answer of `sbatch --parsable`: `12` or `12;cluster`."""
    return text.strip().splitlines()[-1].partition(";")[0] if text.strip() else ""


def jobs(text: str) -> dict[str, JobLine]:
    """Squeue's answer, by number."""
    found = (JobLine(*fields) for fields in _rows(text, len(JOB_FIELDS)))
    return {line.number: line for line in found}


def nodes(text: str) -> list[NodeLine]:
    """Sinfo's answer."""
    return [
        NodeLine(
            name, partition.rstrip("*"), state, _count(cores), limit, reason, partition.endswith("*"), *asked
        )
        for name, partition, state, cores, limit, reason, *asked in _rows(text, len(NODE_FIELDS))
    ]


def check_version(text: str) -> None:
    """Raises a CapabilityError for a Slurm that is too old; what `sinfo --version` says: `slurm 22.05.8`."""
    match = re.search(r"(\d+)\.(\d+)", text)
    if match and (int(match[1]), int(match[2])) < OLDEST:
        oldest = ".".join(f"{part:02}" for part in OLDEST)
        hint = f"Slurm {oldest} or newer is needed: ask your administrators. Nothing was submitted."
        raise CapabilityError(f"this Slurm is too old: {text.strip()}", code="NotSupported", hint=hint)


def configuration(text: str) -> dict[str, str]:
    """The configuration that scontrol prints, by name."""
    return dict(re.findall(r"^(\w+)[ \t]*=[ \t]*(.*?)[ \t]*$", text, re.MULTILINE))


def minutes(limit: str) -> int | None:
    """A time limit (`1-00:00:00`, `30:00`, `infinite`) in whole minutes; None where there is none."""
    match = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", limit.strip())
    if not match:
        return None
    days, hours, mins, _ = (int(part or 0) for part in match.groups())
    return (days * 24 + hours) * 60 + mins


def service_error(program: str, words: str) -> ServiceError:
    """The error for a command that Slurm refused, with its own words."""
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    said = "; ".join(line.removeprefix(f"{program}: ").removeprefix("error: ") for line in lines)
    is_down = any(text in words for text in _SILENCE)
    code = "SlurmUnavailable" if is_down else "SlurmRefused"
    hint = "Slurm's controller is down: try again later." if is_down else "Nothing was submitted."
    return ServiceError(f"Slurm refused ({program}): {said or 'without a word'}", code=code, hint=hint)


def _rows(text: str, count: int) -> Iterator[list[str]]:
    for line in text.splitlines():
        fields = line.split(SEPARATOR)
        if len(fields) == count:
            yield [field.strip() for field in fields]


def _count(text: str) -> int:
    """The number in a column: `64`, or `64+` where nodes differ."""
    digits = re.match(r"\d+", text)
    return int(digits[0]) if digits else 1
