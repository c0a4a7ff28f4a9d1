"""The module `sitecustomize` of a job's Python processes: it makes them write their stacks. Linux only.

A copy of this file is on the module path of a job's processes, after all other folders that the job names. On
a signal that nothing else uses, faulthandler writes the stack of every thread to a file in memory, even if
the interpreter hangs in a library. `stack_dumps` sends that signal and reads the file.
"""

from __future__ import annotations

import os
import sys

SIGNAL = 50  # a real-time signal: SIGUSR1 is a job's, SIGUSR2 and SIGQUIT may be a script's
FILE = "batchai-stacks"


def enable() -> None:
    """Makes this process write its stacks on `SIGNAL`."""
    import faulthandler

    faulthandler.register(SIGNAL, file=os.memfd_create(FILE), all_threads=True)


def _run_next() -> None:
    """Runs the `sitecustomize` that this one hides, such as the distribution's."""
    own_folder = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 pathlib slows the start
    folders = [folder for folder in sys.path if os.path.abspath(folder) != own_folder]  # noqa: PTH100 as above
    finders = (finder for finder in sys.meta_path if getattr(finder, "__name__", "") == "PathFinder")
    spec = next((finder.find_spec(__name__, folders) for finder in finders), None)
    if spec and spec.loader:
        module = spec.loader.create_module(spec) or type(sys)(
            __name__
        )  # importlib.util would double the time
        module.__spec__, module.__loader__, module.__file__ = spec, spec.loader, spec.origin
        module.__package__ = spec.parent
        if spec.submodule_search_locations is not None:
            module.__path__ = spec.submodule_search_locations
        sys.modules[__name__] = module
        spec.loader.exec_module(module)


if __name__ == "sitecustomize":
    try:  # noqa: SIM105    # contextlib would double the time of the start
        enable()
    except Exception:  # noqa: BLE001, S110    # no memory files, no such signal: the job matters more
        pass
    _run_next()
