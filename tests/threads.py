"""The threads that the package has started, apart from those of everything else in the process."""

import threading

from tests.patience import PATIENCE_S


def ours() -> set[threading.Thread]:
    """Threads of ours that are alive: each carries a name that says so."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("batchai-")}


def ended(threads: set[threading.Thread]) -> set[threading.Thread]:
    """Waits for threads to end; those that have not."""
    for thread in threads:
        thread.join(PATIENCE_S)
    return {thread for thread in threads if thread.is_alive()}
