"""Runs processes of a plan. A program of its own: `python run_ranks.py PLAN [INDEX]`.

With an index, or below a launcher that sets the rank (mpiexec, srun), it runs that one process; otherwise the
whole plan, as its launcher. It imports only the standard library and its neighbours, wherever they were
copied to, and exits like the process that failed first.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING or __name__ != "__main__":
    from batchai_magics.launch.plan import Plan
else:  # as a program: its neighbours are in its own folder, and the Plan where the package has it
    from types import ModuleType

    _here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 pathlib slows the start
    _root = os.path.join(_here, "..", "..", "..")  # noqa: PTH118 as above
    _folders = [_here, os.path.join(_root, "launch"), _root]  # noqa: PTH118 as above
    for _name in ("", ".launch", ".backends", ".backends.node", ".backends.node.ranks"):
        _package = sys.modules[f"batchai_magics{_name}"] = ModuleType(f"batchai_magics{_name}")
        _package.__path__ = _folders
    from batchai_magics.launch.plan import Plan

from batchai_magics.backends.node.ranks.rank import die_with_parent
from batchai_magics.backends.node.ranks.ranks import Ranks
from batchai_magics.backends.node.ranks.signal_pipe import SignalPipe

PARENT_POLL_S = 0.5  # interval for polling the parent where the kernel sends no signal
EX_IOERR = 74
_RANK_VARIABLES = ("PMI_RANK", "PMI_ID", "SLURM_PROCID")


def main() -> NoReturn:
    """Runs the processes that the arguments and the launcher select."""
    plan = Plan.read(sys.argv[1])
    index = sys.argv[2] if len(sys.argv) > 2 else rank_of_launcher()
    parent = os.getppid()
    die_with_parent(signal.SIGTERM)
    ranks = Ranks(plan, SignalPipe(), env=os.environ)
    if index:
        ranks.start_one(int(index))
    else:
        ranks.start()
    is_stopped = _wait(ranks, parent)
    code = 128 + signal.SIGTERM if is_stopped else _code(ranks)
    ranks.close()
    sys.exit(code)


def rank_of_launcher() -> str:
    """The rank assigned by a launcher; empty without one."""
    return next((os.environ[name] for name in _RANK_VARIABLES if os.environ.get(name)), "")


def _wait(ranks: Ranks, parent: int) -> bool:
    """Waits until all have succeeded or one has failed; returns whether this program must stop early."""
    while ranks.is_running and not _code(ranks):
        signals = ranks.poll(None if sys.platform == "linux" else PARENT_POLL_S)
        if signal.SIGTERM in signals or os.getppid() != parent:
            return True
    return False


def _code(ranks: Ranks) -> int:
    """The exit code so far: 0 while nothing has failed."""
    failures = [end for end in ranks.ends.values() if end.exit_code]
    if failures:
        return min(failures, key=lambda end: end.ended or 0.0).exit_code or 0
    if ranks.unwritable:
        return EX_IOERR
    abort = ranks.manager.abort if ranks.manager else None
    return (abort.code & 255 or 1) if abort else int(bool(ranks.missed))


if __name__ == "__main__":
    main()
