"""Delivers the notifications of a run that has ended: from its first node, or by a client that looks later.

Started on the node as `ROOT`, as a child of the program that ran the job, with the packages of its Python.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from batchai_magics.backends.folders.outbox import RETRY_LATER_S, Outbox, Sender, end_notifications
from batchai_magics.backends.node.start_line import own_folder, start_words
from batchai_magics.backends.slurm.node.run_files import RunFiles
from batchai_magics.backends.slurm.node.run_rank import read_secrets

MODULE = "batchai_magics.backends.slurm.node.notification_sending"
LIMIT_S = 60.0  # how long the nodes are kept for it
LEASE_S = 120.0  # for which nobody else tries; longer than the retries of one sender
NODE_RETRIES_S = (0.0, 1.0, 5.0, 20.0)
CLIENT_RETRIES_S = (0.0, 2.0)


def send(files: RunFiles) -> None:
    """On the first node: delivers what it can, in a limited time; the rest is left to the next client."""
    if not Outbox.of_run(files.layout).is_used:
        return
    start = start_words(sys.executable, MODULE, own_folder(), has_packages=True)
    with files.batch_log.open("ab") as log, contextlib.suppress(OSError, subprocess.TimeoutExpired):
        env = {**os.environ, **read_secrets(files.secrets)}
        subprocess.run(
            [*start, str(files.root)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=env,
            timeout=LIMIT_S,
            check=False,
        )


def deliver_end(files: RunFiles, retries_s: Sequence[float], *, retry_later_s: float) -> None:
    """Delivers what is pending of a run that has ended, unless somebody else does."""
    box, end, own = Outbox.of_run(files.layout), files.end, f"{socket.gethostname()}:{os.getpid()}"
    if end is None or not box.is_used or not box.claim(own, lambda _: False, lease_s=LEASE_S):
        return
    for notification in end_notifications(files.layout, end):
        box.put(notification)
    if Sender(box, socket.gethostname()).send(retries_s):
        box.remove()
    else:
        box.hand_over(own, until=time.time() + retry_later_s)


def main() -> None:
    """Delivers the notifications of the run with this folder."""
    deliver_end(RunFiles(Path(sys.argv[1])), NODE_RETRIES_S, retry_later_s=0.0)


def deliver_left(files: RunFiles) -> None:
    """As a client: delivers what the nodes could not."""
    deliver_end(files, CLIENT_RETRIES_S, retry_later_s=RETRY_LATER_S)


if __name__ == "__main__":
    main()
