"""`--stop-if`: a program next to the job's own that reads its logs and stops it when a condition holds.

Started as `ROOT ATTEMPT`, as a child of the program that runs the job.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from batchai_magics.backends.node.stop_if_process import watching
from batchai_magics.backends.slurm.node.run_files import RunFiles, Stop
from batchai_magics.backends.slurm.node.start_line import own_folder, start_words
from batchai_magics.launch.plan import Plan

MODULE = "batchai_magics.backends.slurm.node.stop_watching"


def watched(
    files: RunFiles, attempt: int, plan: Plan, *, warn: Callable[[str], None]
) -> AbstractContextManager[None]:
    """Watches the job if it has stop conditions; reports what could not be checked."""
    if not files.layout.stop_if.exists():
        return contextlib.nullcontext()
    # With this Python's packages: user-written expressions need RE2.
    start = start_words(plan.python, MODULE, own_folder(), has_packages=True)
    return watching([*start, str(files.root), str(attempt)], log=files.batch_log, warn=warn)


def main() -> None:
    """Watches until a condition holds, or the parent signals the end of the job.

    Then prints what could not be checked.
    """
    from batchai_magics.backends.folders.stop_order import StopIfRequest
    from batchai_magics.backends.folders.stop_watch import StopWatch

    files, attempt = RunFiles(Path(sys.argv[1])), int(sys.argv[2])
    watch = StopWatch(StopIfRequest.read(files.layout.stop_if), Plan.read(str(files.layout.plan)))
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    reason = watch.follow(over)
    if not reason:
        print(*watch.unseen, sep="\n", flush=True)
        return
    files.ask_to_stop(attempt, Stop(reason, time.time()))
    os.kill(os.getppid(), signal.SIGTERM)  # the parent, which reads the stop request


if __name__ == "__main__":
    main()
