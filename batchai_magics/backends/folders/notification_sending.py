"""Delivers the notifications of a run that has ended: where it ran, or by a client that looks later.

Started as `ROOT`, the folder of the run, as a child of the program that ran the job, with the packages of the
job's Python.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from batchai_magics.backends.folders.outbox import RETRY_LATER_S, Outbox, Sender, end_notifications
from batchai_magics.backends.folders.run_end import read_end
from batchai_magics.backends.node.job_layout import JobLayout
from batchai_magics.backends.node.node_programs import programs_folder, start_words

MODULE = "batchai_magics.backends.folders.notification_sending"
LIMIT_S = 60.0  # how long the nodes are kept for it
LEASE_S = 120.0  # within which no other process tries; longer than the retries of one sender
NODE_RETRIES_S = (0.0, 1.0, 5.0, 20.0)
CLIENT_RETRIES_S = (0.0, 2.0)


def send(
    job: JobLayout, python: str, *, log: Path, secrets: Mapping[str, str], section: str = "slurm"
) -> None:
    """Where it ran: delivers what it can, in a limited time; the rest is left to the next client."""
    if not Outbox.of_run(job).is_used:
        return
    start = start_words(python, MODULE, programs_folder(), section=section, has_packages=True)
    with log.open("ab") as errors, contextlib.suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(
            [*start, str(job.root)],
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
            env={**os.environ, **secrets},
            timeout=LIMIT_S,
            check=False,
        )


def deliver_end(job: JobLayout, retries_s: Sequence[float], *, retry_later_s: float) -> None:
    """Delivers what is pending of a run that has ended, unless another process does."""
    box, end, sender = Outbox.of_run(job), read_end(job.end), f"{socket.gethostname()}:{os.getpid()}"
    if end is None or not box.is_used or not box.claim(sender, lambda _: False, lease_s=LEASE_S):
        return
    for notification in end_notifications(job, end):
        box.put(notification)
    if Sender(box, socket.gethostname()).send(retries_s):
        box.remove()
    else:
        box.hand_over(sender, until=time.time() + retry_later_s)


def main() -> None:
    """Delivers the notifications of the run with this folder."""
    deliver_end(JobLayout(Path(sys.argv[1])), NODE_RETRIES_S, retry_later_s=0.0)


def deliver_left(job: JobLayout) -> None:
    """As a client: delivers what the nodes could not."""
    deliver_end(job, CLIENT_RETRIES_S, retry_later_s=RETRY_LATER_S)


if __name__ == "__main__":
    main()
