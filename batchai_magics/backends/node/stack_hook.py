"""The module `sitecustomize` of a job's Python processes: they can be asked for their stacks. Linux only.

A copy of this file is on the module path of a job's processes, after all other folders that the job names. On
a signal that nothing else uses, faulthandler writes the stack of every thread to a file in memory, even if
the interpreter hangs in a library. `stack_dumps` sends it, and reads the file.
"""

from __future__ import annotations

import contextlib
import os
import sys

SIGNAL = 50  # a real-time signal: SIGUSR1 is a job's, SIGUSR2 and SIGQUIT may be a script's
FILE = "batchai-stacks"


def enable() -> None:
    """Has this process write its stacks when it is asked to."""
    import faulthandler

    faulthandler.register(SIGNAL, file=os.memfd_create(FILE), all_threads=True)


def _run_next() -> None:
    """Runs the `sitecustomize` that this one hides, such as that of the distribution."""
    import importlib.machinery
    import importlib.util

    own_folder = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 pathlib slows the start
    folders = [folder for folder in sys.path if os.path.abspath(folder) != own_folder]  # noqa: PTH100 as above
    spec = importlib.machinery.PathFinder.find_spec(__name__, folders)
    if spec and spec.loader:
        sys.modules[__name__] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


if __name__ == "sitecustomize":
    with contextlib.suppress(Exception):  # no memory files, no such signal: the job matters more
        enable()
    _run_next()
