"""Runs the program that watches a run, and signals it when the run is over."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from batchai_magics.backends.node.ranks.rank import die_with_parent


@contextlib.contextmanager
def watching(
    args: Sequence[str], *, log: Path, warn: Callable[[str], None], env: Mapping[str, str] | None = None
) -> Iterator[None]:
    """Runs the program within the context; reports what could not be done. Its stderr goes to `log`.

    SIGTERM tells it that the job has ended; it then prints what could not be done, one item per line
    that is not empty.
    """
    with log.open("ab") as stream:
        child = subprocess.Popen(
            args,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stream,
            env=env,
            preexec_fn=_prepare,
        )
    try:
        yield
    finally:
        ended_early = child.poll() is not None
        child.terminate()
        unseen, code = child.communicate()[0].decode(), child.wait()
    for note in filter(None, unseen.splitlines()):
        warn(note)
    if ended_early and code not in (0, -signal.SIGTERM):
        warn(f"the run was not watched to its end: the program that does ended with {code}, see {log}")


def end_signal() -> threading.Event:
    """In the program: an event that is set when the job has ended."""
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    return over


def _prepare() -> None:
    """Has the program die with this process, and miss no signal while it loads."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    die_with_parent(signal.SIGKILL)
