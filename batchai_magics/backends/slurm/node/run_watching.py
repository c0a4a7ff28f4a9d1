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

    notes = run_watch.watch(files.layout, over, stop, by=socket.gethostname())
    print(*notes, sep="\n", flush=True)


if __name__ == "__main__":
    main()
