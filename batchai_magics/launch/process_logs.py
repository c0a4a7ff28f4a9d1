"""Which processes have additional log files of their own, and the names that the service gave them. Pure.

The tutorials of TensorFlow, PyTorch and Caffe2 stream `stdout-wk-0.txt`, `stdout-0.txt`, `stderr-1.txt`;
toolkits under mpirun had one log for all processes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from batchai_magics.launch.plan import LaunchMode, LogFile, Output, Process
    from batchai_magics.models.job_spec import JobSpec


_NAME = re.compile(r"std(?:out|err)-(?:(?:wk|ps)-)?[0-9]+\.txt")


def log_label(job: JobSpec, process: Process, launcher: LaunchMode) -> str:
    """The label in the names of a process's own files: `wk-0`, `ps-1`, `3`; empty if it has none."""
    from batchai_magics.launch.plan import LaunchMode, Role

    if job.tensor_flow_settings:
        kind = "ps" if process.role is Role.PARAMETER_SERVER else "wk"
        return f"{kind}-{process.env['AZ_BATCHAI_TASK_INDEX']}"
    is_by_rank = (job.py_torch_settings or job.caffe2_settings) and launcher is LaunchMode.DIRECT
    return str(process.rank) if is_by_rank else ""


def with_label(output: Output, label: str) -> Output:
    """The files with this label in the folder of the job's logs, without spans and times."""
    from batchai_magics.launch.plan import Output

    return Output(*(_labelled(log, label) for log in output))


def is_process_log(name: str) -> bool:
    """Whether a log file belongs to one process; its contents are in the job's log too."""
    return _NAME.fullmatch(name) is not None


def _labelled(log: LogFile, label: str) -> LogFile:
    from batchai_magics.launch.plan import LogFile

    path, hidden = (re.sub(r"(?=\.txt$)", f"-{label}", text) for text in (log.path, log.hidden))
    return LogFile(path, hidden=hidden)
