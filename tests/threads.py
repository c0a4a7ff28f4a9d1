"""The threads started by the package, as opposed to other threads of the process."""

import threading

from tests.patience import PATIENCE_S


def package_threads() -> set[threading.Thread]:
    """The package's living threads, recognized by their names."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("batchai-")}


def join_all(threads: set[threading.Thread]) -> set[threading.Thread]:
    """Waits for threads to end; returns those that have not."""
    for thread in threads:
        thread.join(PATIENCE_S)
    return {thread for thread in threads if thread.is_alive()}
