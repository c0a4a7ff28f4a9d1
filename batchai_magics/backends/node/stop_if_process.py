"""`--stop-if`: the program beside a job that reads its logs, started and told when the job is over."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from batchai_magics.backends.node.ranks.rank import die_with_parent


@contextlib.contextmanager
def watching(words: Sequence[str], *, log: Path, warn: Callable[[str], None]) -> Iterator[None]:
    """Within it the program runs; warns of what could not be checked. Its own words go to the file `log`.

    SIGTERM tells it that the job is over. What could not be checked then comes on its stdout, a line each.
    """
    with log.open("ab") as stream:
        child = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stream,
            preexec_fn=_die_with_starter,
        )
    try:
        yield
    finally:
        is_early = child.poll() is not None
        child.terminate()
        unseen, code = child.communicate()[0].decode(), child.wait()
    for note in unseen.splitlines():
        warn(note)
    if is_early and code not in (0, -signal.SIGTERM):
        warn(f"--stop-if was not checked to the end: its program ended with {code}, see {log}")


def _die_with_starter() -> None:
    die_with_parent(signal.SIGKILL)
