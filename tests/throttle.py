"""Slows the preflight's program on one node of a job down, as another program on that node would."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import psutil

from batchai_magics.backends.node.preflight_program import INDEX

RUN_S, PAUSE_S = 0.004, 0.046  # the program has less than a tenth of the time


@contextlib.contextmanager
def throttled(guid: str, node: int) -> Iterator[None]:
    """Within it, what checks that node of that run is stopped most of the time."""
    is_over = threading.Event()
    thread = threading.Thread(target=_throttle, args=(guid, str(node), is_over))
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _throttle(guid: str, node: str, is_over: threading.Event) -> None:
    while not (found := _program(guid, node)) and not is_over.wait(0.01):
        continue
    with contextlib.suppress(psutil.NoSuchProcess):
        while found and not is_over.is_set():
            found.suspend()
            is_over.wait(PAUSE_S)
            found.resume()
            is_over.wait(RUN_S)


def _program(guid: str, node: str) -> psutil.Process | None:
    """The program of that node; not the shell that starts it."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            words = process.cmdline()
            if words[-2:-1] and "preflight_program" in words[-2] and words[0] != "/bin/bash":
                variables = process.environ()
                if variables.get(INDEX) == node and variables.get("BATCHAI_JOB_GUID") == guid:
                    return process
    return None
