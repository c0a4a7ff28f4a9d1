"""The line that starts one of the programs of nodes."""

from __future__ import annotations

from pathlib import Path

# Any Python understands the first two steps: one that is too old says so before it meets what it cannot read.
_START = (
    "import os, sys; sys.version_info >= (3, 10) or sys.exit('Python 3.10 or newer is needed on the nodes,'"
    " + ' and ' + sys.executable + ' is ' + sys.version.split()[0] + ': set slurm.python');"
    " root = sys.argv.pop(1); os.path.isdir(root) or"
    " sys.exit('%s does not see %s: set slurm.home to a folder that all nodes share'"
    " % (os.environ.get('SLURMD_NODENAME', 'this node'), root));"
    # behind the standard library, before packages, which may have another version of this one
    " sites = [path for path in sys.path if path.endswith(('site-packages', 'dist-packages'))];"
    " sys.path.insert(sys.path.index(sites[0]) if sites else len(sys.path), root);"
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
    return str(Path(__file__).parents[4])
