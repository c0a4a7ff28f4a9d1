"""The program beside a run that evaluates its stop conditions; a child of the run's supervising actor.

Started as `ROOT`, the folder of the run.
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path

from batchai_magics.backends.node.job_layout import JobLayout
from batchai_magics.backends.node.watch_process import end_signal
from batchai_magics.backends.ray.node.run_files import RunFiles
from batchai_magics.backends.service import private_files
from batchai_magics.models.prices import NodeTime


def main() -> None:
    """Watches until the parent signals the end of the run; then prints what could not be done."""
    from batchai_magics.backends.folders import run_watch

    files, over = RunFiles(JobLayout(Path(sys.argv[1]))), end_signal()

    def stop(reason: str) -> None:
        private_files.write_new(files.stop, reason)  # the supervising actor looks for it every second

    times = [NodeTime(len(each.nodes), each.started, each.ended) for each in files.attempts]
    notes = run_watch.watch(files.job, over, stop, by=socket.gethostname(), times=times)
    print(*notes, sep="\n", flush=True)


if __name__ == "__main__":
    main()
