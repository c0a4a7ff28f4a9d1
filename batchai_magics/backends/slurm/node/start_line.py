"""The line that starts one of the programs of nodes."""

from __future__ import annotations

import sys
from pathlib import Path

# Any Python understands the first two steps: one that is too old says so before it meets what it cannot read.
_START = (
    "import os, sys; sys.version_info >= (3, 10) or sys.exit('Python 3.10 or newer is needed on the nodes,'"
    " + ' and ' + sys.executable + ' is ' + sys.version.split()[0] + ': set slurm.python');"
    " sys.path.insert(0, sys.argv.pop(1)); os.path.isdir(sys.path[0]) or"
    " sys.exit('%s does not see %s: set slurm.home to a folder that all nodes share'"
    " % (os.environ.get('SLURMD_NODENAME', 'this node'), sys.path[0]));"
    " from {} import main; main()"
)


def start_words(python: str, module: str, programs: Path | str, *, has_packages: bool = False) -> list[str]:
    """The line that runs a module's `main` from a folder of programs; the program's own words come after it.

    It has the standard library alone, unless it is to have the packages of its Python too.
    """
    alone = [] if has_packages else ["-S"]
    return [python, "-I", *alone, "-c", _START.format(module), str(programs)]


def own_folder() -> str:
    """The folder of programs that this very program was started from."""
    return next(path for path in sys.path if path)
