"""Runs processes of a plan, or the one of an index: `python -I -S ranks_program.py PLAN [INDEX]`.

The variable PROGRAMS names a folder that has the package. Exits like the process that failed first.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

sys.path.insert(0, os.environ.get("PROGRAMS") or str(Path(__file__).parents[4]))

from batchai_magics.backends.node.ranks.rank import die_with_parent
from batchai_magics.backends.node.ranks.ranks import Ranks
from batchai_magics.backends.node.ranks.signal_pipe import SignalPipe
from batchai_magics.launch.plan import Plan

EX_IOERR = 74


def main() -> NoReturn:
    """Runs the processes that the arguments select, until all have succeeded or one has failed."""
    plan, *index = Plan.read(sys.argv[1]), *sys.argv[2:]
    die_with_parent(signal.SIGKILL)
    ranks = Ranks(plan, SignalPipe(), env=os.environ)
    if index:
        ranks.start_one(int(index[0]))
    else:
        ranks.start()
    while ranks.is_running and not _code(ranks):
        ranks.poll(None)
    code = _code(ranks)
    ranks.close()
    sys.exit(code)


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
