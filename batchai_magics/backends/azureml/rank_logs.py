"""The service's names of log files: which process and which attempt wrote them. Pure.

A command without a distribution writes `user_logs/std_log.txt`; one with MPI or PyTorch a file for each
process (`std_log_process_07.txt`, padded to the width of their count), one with TensorFlow a file for each
task (`std_log_node_00_ps.txt`). Retries write theirs to `user_logs/retry_001/`. Old runs have
`azureml-logs/70_driver_log_0.txt`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from batchai_magics.models.job_execution import OUT

_FOLDER = r"user_logs/(?:retry_(?P<retry>\d+)/)?"
_NAME = re.compile(
    rf"(?:{_FOLDER}std_log(?:_process_(?P<process>\d+)|_node_(?P<node>\d+)_(?P<role>ps|worker|master))?"
    r"|azureml-logs/70_driver_log(?:_(?P<driver>\d+))?)\.txt"
)
# What mpirun itself printed, and the files that a job's commands wrote into the directory of its logs.
_OTHER = re.compile(rf"{_FOLDER}mpi_log\.txt|logs/batchai/stdouterr/[^/]+")


@dataclass(frozen=True)
class RankLog:
    """A log file of one process in one attempt.

    Attributes:
        name: The service's name.
        attempt: The number of retries before it.
        rank: The rank of the process.
        label: What distinguishes its own log in the job's folder, `wk-0`, `3`; empty for a single process.
    """

    name: str
    attempt: int
    rank: int
    label: str = ""

    @property
    def path(self) -> str:
        """Its path in the directory `stdouterr`: Batch AI's name of the process's own log."""
        return f"stdout-{self.label}.txt" if self.label else self.tailed_path

    @property
    def tailed_path(self) -> str:
        """The path of the log that its lines are part of: the common one, unless no process wrote it."""
        return self.name.rpartition("/")[2] if _OTHER.fullmatch(self.name) else OUT


def parse_log_name(name: str, worker_count: int = 1) -> RankLog | None:
    """The process of a log file; None for a file of the service.

    Args:
        name: The service's name.
        worker_count: The workers of TensorFlow, whose ranks precede those of the parameter servers.
    """
    match = _NAME.fullmatch(name)
    if not match:
        return None
    attempt = _attempt(match)
    if match["node"] is None:
        index = match["process"] or match["driver"]
        return RankLog(name, attempt, int(index or 0), str(int(index)) if index else "")
    index = int(match["node"])
    if match["role"] == "ps":
        return RankLog(name, attempt, worker_count + index, f"ps-{index}")
    return RankLog(name, attempt, index, f"wk-{index}")


def _attempt(match: re.Match[str]) -> int:
    return int(match["retry"] or 0)


def rank_logs(names: Iterable[str]) -> list[RankLog]:
    """The logs of processes among these files, by attempt and rank; old names only where there are no others.

    TensorFlow has as many workers as have logs.
    """
    known = list(names)
    workers = sum("_worker" in name and "/retry_" not in name for name in known)
    logs = [log for name in known if (log := parse_log_name(name, workers))]
    current = [log for log in logs if log.name.startswith("user_logs/")]
    return sorted(current or logs, key=lambda log: (log.attempt, log.rank))


def other_logs(names: Iterable[str]) -> list[RankLog]:
    """The logs of no process among these files, such as that of mpirun, in the order of the attempts."""
    logs = [RankLog(name, _attempt(match), 0) for name in names if (match := _OTHER.fullmatch(name))]
    return sorted(logs, key=lambda log: (log.attempt, log.name))


def attempt_count(names: Iterable[str]) -> int:
    """How often the service has started the job, by its log files; at least once."""
    return 1 + max((log.attempt for log in rank_logs(names)), default=0)
