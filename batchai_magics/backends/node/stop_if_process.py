"""`--stop-if`: runs the program that reads a job's logs, and signals it when the job has ended."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from batchai_magics.backends.node.ranks.rank import die_with_parent


@contextlib.contextmanager
def watching(args: Sequence[str], *, log: Path, warn: Callable[[str], None]) -> Iterator[None]:
    """Runs the program within the context; reports what could not be checked. Its stderr goes to `log`.

    SIGTERM tells it that the job has ended; it then prints what could not be checked, one item per line.
    """
    with log.open("ab") as stream:
        child = subprocess.Popen(
            args,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stream,
            preexec_fn=_die_with_starter,
        )
    try:
        yield
    finally:
        ended_early = child.poll() is not None
        child.terminate()
        unseen, code = child.communicate()[0].decode(), child.wait()
    for note in unseen.splitlines():
        warn(note)
    if ended_early and code not in (0, -signal.SIGTERM):
        warn(f"--stop-if was not checked to the end: its program ended with {code}, see {log}")


def _die_with_starter() -> None:
    die_with_parent(signal.SIGKILL)
