"""What this program learns of its own allocation: its nodes, and why Slurm takes it away."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

_LOST = re.compile(r"DOWN|FAIL|NOT_RESPONDING|\*")
_FAILED = re.compile(r"Node failure on (\S+)")
ASK_S = 10.0
SPELL_S = 60.0  # what scontrol gets to spell a list of names out: it asks nobody, but the machine may be busy


def nodes() -> list[str]:
    """The nodes of the allocation, in Slurm's order; the first of them runs this program.

    OSError where scontrol does not tell all of them: a job must not run on fewer without a word.
    """
    listed = os.environ["SLURM_JOB_NODELIST"]
    names = _scontrol("show", "hostnames", listed, timeout_s=SPELL_S).split()
    names = names or [os.environ["SLURMD_NODENAME"]]
    count = int(os.environ.get("SLURM_JOB_NUM_NODES") or len(names))
    if len(names) != count:
        text = (
            f"scontrol does not tell the names of the job's {count} nodes, {listed}: is it on the PATH there?"
        )
        raise OSError(text)
    return names


def addresses(names: Sequence[str]) -> list[str]:
    """Where those nodes reach each other: a lone one on loopback alone."""
    if len(names) == 1:
        return ["127.0.0.1"]
    found = _of_nodes(names, "NodeAddr")
    return [found.get(name, name) for name in names]


def lost_nodes(names: Sequence[str], log: Path) -> dict[str, str]:
    """Those of these nodes that Slurm has lost, by its controller, else by what srun wrote into a log."""
    states = _of_nodes(names, "State")
    lost = {name: state.lower() for name, state in states.items() if _LOST.search(state)}
    if lost:
        return lost
    try:
        said = log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    return {name: "" for name in _FAILED.findall(said) if name in names}


def boot_times(names: Sequence[str]) -> dict[str, str]:
    """When those nodes were last started, as Slurm writes it, by name; those of which it tells."""
    return _of_nodes(names, "BootTime")


def own_fields() -> dict[str, str]:
    """What Slurm says of this allocation, by its own names; nothing when it does not answer."""
    answer = _scontrol("show", "job", os.environ["SLURM_JOB_ID"], "--oneliner")
    return fields_of(answer)


def is_taken() -> bool:
    """Whether Slurm says that this allocation is over, or about to be; no when it does not answer."""
    return own_fields().get("JobState", "RUNNING") != "RUNNING"


def fields_of(answer: str) -> dict[str, str]:
    """The fields in a line of scontrol's, each as far as its first blank."""
    return dict(re.findall(r"(?<!\S)(\w+)=(\S*)", answer))


def _of_nodes(names: Sequence[str], field: str) -> dict[str, str]:
    answer = _scontrol("show", "node", ",".join(names), "--oneliner")
    return dict(re.findall(rf"NodeName=(\S+).*?{field}=(\S+)", answer))


def _scontrol(*words: str, timeout_s: float | None = None) -> str:
    try:
        done = subprocess.run(
            ["scontrol", *words],
            capture_output=True,
            text=True,
            timeout=timeout_s or ASK_S,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):  # no such program on nodes, or no controller now
        return ""
    return done.stdout
