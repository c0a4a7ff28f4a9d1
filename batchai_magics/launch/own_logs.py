"""Which processes also have log files of their own, and what the service called them. Pure.

The tutorials of TensorFlow, PyTorch and Caffe2 stream `stdout-wk-0.txt`, `stdout-0.txt`, `stderr-1.txt`;
toolkits that start their processes under mpirun had one log for all.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # whoever lists jobs needs this module, and nothing of this
    from batchai_magics.launch.description import Description
    from batchai_magics.launch.plan import Launcher, LogFile, Output, Process

_TENSORFLOW, _NAMED_BY_RANK = "tensorFlowSettings", ("pyTorchSettings", "caffe2Settings")
_NAME = re.compile(r"std(?:out|err)-(?:(?:wk|ps)-)?[0-9]+\.txt")


def label(job: Description, process: Process, launcher: Launcher) -> str:
    """What stands in the names of a process's own files: `wk-0`, `ps-1`, `3`; empty where it has none."""
    from batchai_magics.launch.plan import Launcher, Role

    if job.toolkit == _TENSORFLOW:
        kind = "ps" if process.role is Role.PARAMETER_SERVER else "wk"
        return f"{kind}-{process.env['AZ_BATCHAI_TASK_INDEX']}"
    is_by_rank = job.toolkit in _NAMED_BY_RANK and launcher is Launcher.DIRECT
    return str(process.rank) if is_by_rank else ""


def beside(output: Output, label: str) -> Output:
    """The files of that label in the folder of the job's logs; its records are those of the job's."""
    from batchai_magics.launch.plan import Output

    return Output(*(_beside(log, label) for log in output))


def is_own(name: str) -> bool:
    """Whether a file of a job's logs is called as one process's own: all of it is in the job's log too."""
    return _NAME.fullmatch(name) is not None


def _beside(log: LogFile, label: str) -> LogFile:
    from batchai_magics.launch.plan import LogFile

    path, hidden = (re.sub(r"(?=\.txt$)", f"-{label}", text) for text in (log.path, log.hidden))
    return LogFile(path, hidden=hidden)
