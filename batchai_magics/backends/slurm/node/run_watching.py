"""The program beside a job's own that watches it: stop conditions, live exports, notifications.

Started as `ROOT ATTEMPT`, as a child of the program that runs the job.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from batchai_magics.backends.node.watch_process import end_signal, watching
from batchai_magics.backends.slurm.node.run_files import RunFiles, Stop
from batchai_magics.backends.slurm.node.start_line import own_folder, start_words
from batchai_magics.launch.plan import Plan
from batchai_magics.models.prices import NodeTime
from batchai_magics.records.record_files import WATCH

MODULE = "batchai_magics.backends.slurm.node.run_watching"


def watched(
    files: RunFiles, attempt: int, plan: Plan, *, env: Mapping[str, str], warn: Callable[[str], None]
) -> AbstractContextManager[None]:
    """Watches the job if it needs that; reports what could not be done."""
    if not (files.layout.stop_if.exists() or (files.layout.records / WATCH).exists()):
        return contextlib.nullcontext()
    # With this Python's packages: user-written expressions need RE2, some notifications apprise.
    start = start_words(plan.python, MODULE, own_folder(), has_packages=True)
    return watching([*start, str(files.root), str(attempt)], log=files.batch_log, env=env, warn=warn)


def main() -> None:
    """Watches until the parent signals the end of the job; then prints what could not be done."""
    from batchai_magics.backends.folders import run_watch

    files, attempt = RunFiles(Path(sys.argv[1])), int(sys.argv[2])
    over = end_signal()

    def stop(reason: str) -> None:
        files.ask_to_stop(attempt, Stop(reason, time.time()))
        os.kill(os.getppid(), signal.SIGTERM)  # the parent, which reads the stop request

    notes = run_watch.watch(files.layout, over, stop, by=socket.gethostname(), times=_node_times(files))
    print(*notes, sep="\n", flush=True)


def _node_times(files: RunFiles) -> list[NodeTime]:
    """The node times of all attempts; one that did not report its end was over when the next one started."""
    attempts = files.attempts()
    later = [start.time for start, _ in attempts[1:]]
    ends = [end.time if end else None for _, end in attempts]
    ends[:-1] = [end or start for end, start in zip(ends, later, strict=False)]
    return [
        NodeTime(len(start.nodes), start.time, end) for (start, _), end in zip(attempts, ends, strict=True)
    ]


if __name__ == "__main__":
    main()
