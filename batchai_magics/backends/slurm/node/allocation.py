"""The Slurm allocation of this program: its nodes, why Slurm ends it, and the deadline of an attempt."""

from __future__ import annotations

import math
import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from batchai_magics.backends.node.launcher import Deadline
from batchai_magics.backends.slurm.node.attempt_ends import EndState, end_state_of, log_text, outcome_of
from batchai_magics.backends.slurm.node.run_files import dependency
from batchai_magics.launch.plan import Limits

_LOST = re.compile(r"DOWN|FAIL|NOT_RESPONDING|\*")
_FAILED = re.compile(r"Node failure on (\S+)")
_TIME = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)")
_UNKNOWN = re.compile("invalid job id|not found", re.IGNORECASE)
QUERY_TIMEOUT_S = 10.0
ORDER_TIMEOUT_S = 60.0  # scontrol itself repeats requests to a controller that does not respond
EXPAND_TIMEOUT_S = (
    60.0  # scontrol expands names without contacting the controller, but the machine may be busy
)


def nodes() -> list[str]:
    """The nodes of the allocation, in Slurm's order; the first of them runs this program.

    Raises:
        OSError: scontrol does not list all of them: a job must not silently run on fewer nodes.
    """
    listed = os.environ["SLURM_JOB_NODELIST"]
    names = _scontrol("show", "hostnames", listed, timeout_s=EXPAND_TIMEOUT_S).split()
    names = names or [os.environ["SLURMD_NODENAME"]]
    count = int(os.environ.get("SLURM_JOB_NUM_NODES") or len(names))
    if len(names) != count:
        text = (
            f"scontrol does not tell the names of the job's {count} nodes, {listed}: is it on the PATH there?"
        )
        raise OSError(text)
    return names


def addresses(names: Sequence[str]) -> list[str]:
    """The addresses at which these nodes reach each other: loopback for a single node."""
    if len(names) == 1:
        return ["127.0.0.1"]
    address_of = _of_nodes(names, "NodeAddr")
    return [address_of.get(name, name) for name in names]


def lost_nodes(names: Sequence[str], log: Path) -> dict[str, str]:
    """The nodes that Slurm has lost, according to its controller, else to srun's messages in a log."""
    states = _of_nodes(names, "State")
    lost = {name: state.lower() for name, state in states.items() if _LOST.search(state)}
    if lost:
        return lost
    return {name: "" for name in _FAILED.findall(log_text(log)) if name in names}


def boot_times(names: Sequence[str]) -> dict[str, str]:
    """When these nodes booted, in Slurm's format, by name; nodes without a known boot time are missing."""
    return _of_nodes(names, "BootTime")


def own_fields() -> dict[str, str]:
    """Slurm's fields for this allocation; empty if the controller does not respond."""
    return fields_of(_scontrol("show", "job", os.environ["SLURM_JOB_ID"], "--oneliner"))


def is_open(job: str) -> bool | None:
    """Whether a job of Slurm's waits, runs or is ending; None if the controller does not respond."""
    done = _run("scontrol", "show", "job", job, "--oneliner", timeout_s=ORDER_TIMEOUT_S)
    if state := fields_of(done.stdout).get("JobState", ""):
        return end_state_of(state) is None
    return False if _UNKNOWN.search(done.stdout + done.stderr) else None


_GRACE_TIME, _PREEMPTS = re.compile(r"\bGraceTime=(\d+)"), re.compile(r"\bPreemptMode=(?!OFF\b)")
_KILL_WAIT = re.compile(r"^KillWait\s*=\s*(\d+)", re.MULTILINE)
_SHORT_GRACE = (
    "Slurm kills processes {} s after it has told them to end {}, and the job asks for a grace of {:g} s"
)


def short_graces(limits: Limits) -> list[str]:
    """Notes on ends at which Slurm gives processes less time to save than the job does."""
    graces = []
    if wait := _KILL_WAIT.search(_scontrol("show", "config")):
        graces.append((int(wait[1]), "at a time limit or scancel (KillWait)"))
    partition = _scontrol("show", "partition", os.environ.get("SLURM_JOB_PARTITION", ""))
    if _PREEMPTS.search(partition) and (grace := _GRACE_TIME.search(partition)):
        graces.append((int(grace[1]), "at a preemption (GraceTime)"))
    wanted_s = limits.grace_s - limits.warn_s
    texts = (
        _SHORT_GRACE.format(seconds, when, limits.grace_s) for seconds, when in graces if seconds < wanted_s
    )
    return [f"{text}: --signal-before warns them earlier" for text in texts]


def time_left_s() -> float:
    """How long Slurm lets this allocation run; infinite if it is not limited, or the limit is unknown."""
    fields = own_fields()
    limit_s, spent_s = (_seconds(fields.get(name, "")) for name in ("TimeLimit", "RunTime"))
    return max(0.0, limit_s - spent_s) if math.isfinite(spent_s) else math.inf


def _seconds(text: str) -> float:
    """The seconds in Slurm's `1-02:03:04`; infinite for anything else, such as UNLIMITED."""
    match = _TIME.fullmatch(text)
    if not match:
        return math.inf
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24.0 + hours) * 60 + minutes) * 60 + seconds


def srun_beside(names: Sequence[str]) -> list[str]:
    """The command that runs one program on each of these nodes of the job, beside its processes."""
    count = len(names)
    options = [f"--nodelist={','.join(names)}", f"--nodes={count}", f"--ntasks={count}"]
    return ["srun", *options, "--overlap", "--mpi=none", "--input=none", "--quiet", "--cpu-bind=none"]


def wake_tasks() -> None:
    """Makes the programs of this job's tasks read its files now, rather than within seconds."""
    _run("scancel", "--signal=CONT", os.environ["SLURM_JOB_ID"], timeout_s=ORDER_TIMEOUT_S)


def requeue() -> str:
    """Makes Slurm requeue this job once its script has ended; returns why it refuses, or empty."""
    return _change_job("requeue", os.environ["SLURM_JOB_ID"])


def wait_for(slurm_jobs: Sequence[str]) -> str:
    """Makes Slurm requeue this job until other ones have ended; returns why it refuses, or empty.

    This also works for a job submitted with `--no-requeue`, which it keeps.
    """
    job = f"jobid={os.environ['SLURM_JOB_ID']}"
    before = own_fields().get("Requeue", "0")
    if refusal := _change_job("update", job, "requeue=1") or requeue():
        _change_job("update", job, f"requeue={before}")
        return refusal
    # Slurm drops the dependencies of a job when it starts; without new ones, it would start again soon.
    _change_job("update", job, f"requeue={before}", f"dependency={dependency(slurm_jobs)}")
    return ""


def forbid_requeue() -> None:
    """Makes Slurm fail this job, instead of requeueing it, when it loses its nodes."""
    _change_job("update", f"jobid={os.environ['SLURM_JOB_ID']}", "requeue=0")


def is_ending() -> bool:
    """Whether Slurm reports that this allocation is ending; False if the controller does not respond."""
    fields = own_fields()
    return fields.get("JobState", "RUNNING") != "RUNNING" or is_preempted(fields)


def is_preempted(fields: Mapping[str, str]) -> bool:
    """Whether an allocation with these fields is preempted; until its grace time is over, it is RUNNING."""
    return fields.get("PreemptTime", "None") not in ("None", "N/A", "Unknown", "")


def fields_of(line: str) -> dict[str, str]:
    """The fields in a line printed by scontrol, each up to its first blank."""
    return dict(re.findall(r"(?<!\S)(\w+)=(\S*)", line))


def mpi_plugins() -> list[str]:
    """The plugins that `srun --mpi=` accepts here; empty if srun does not list them."""
    done = _run("srun", "--mpi=list")
    # Its heading is a sentence; up to Slurm 20.11, each line begins with the program and goes to stderr.
    return sorted(re.findall(r"^(?:srun: )?\s*(\w+)$", done.stdout + done.stderr, re.MULTILINE))


def _of_nodes(names: Sequence[str], field: str) -> dict[str, str]:
    text = _scontrol("show", "node", ",".join(names), "--oneliner")
    return dict(re.findall(rf"NodeName=(\S+).*?{field}=(\S+)", text))


def _change_job(*words: str) -> str:
    """Makes the controller change this job; returns its refusal or the failure of the request, or empty.

    A requeued job gets SIGTERM at once, maybe before scontrol has received the reply.
    """
    done = _run("scontrol", *words, timeout_s=ORDER_TIMEOUT_S, ignored=(signal.SIGTERM,))
    return (done.stderr.strip() or f"exit code {done.returncode}") if done.returncode else ""


def _scontrol(*words: str, timeout_s: float | None = None) -> str:
    """The output of scontrol; empty if it is not installed here, or the controller is down."""
    return _run("scontrol", *words, timeout_s=timeout_s).stdout


def _run(
    *words: str, timeout_s: float | None = None, ignored: Sequence[signal.Signals] = ()
) -> subprocess.CompletedProcess[str]:
    """Runs a Slurm command; one that cannot be run, or times out, has failed, with the reason in stderr."""

    def ignore() -> None:
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)

    try:
        return subprocess.run(
            words,
            capture_output=True,
            text=True,
            timeout=timeout_s or QUERY_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
            check=False,
            preexec_fn=ignore if ignored else None,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(words, 1, "", str(error))


MARGIN_S = 30.0  # how long before Slurm's limit an attempt ends if another one is to follow
MARGIN_SHARE = 0.25  # the maximum margin as a share of the time left


def deadline(limits: Limits) -> Deadline:
    """The deadline of an attempt that begins now.

    Slurm's own limit is queried only if the job continues in another attempt or asks for a warning.
    """
    attempt_deadline = Deadline(limits)
    if limits.max_restarts is None and not limits.warn_s:
        return attempt_deadline
    left_s = time_left_s()
    if limits.max_restarts is not None:
        left_s -= min(max(MARGIN_S, limits.grace_s), left_s * MARGIN_SHARE)
    if left_s < attempt_deadline.left_s:
        attempt_deadline.shorten(left_s, outcome_of(EndState.TIMEOUT))
    return attempt_deadline
