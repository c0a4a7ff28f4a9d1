"""The programs that run on nodes, which need only Python: their files, and the command that starts one."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).parents[2]
_FILES = ("errors.py", "log_lines.py", "untrusted_files.py", "options/regular_expressions.py")
_FOLDERS = (
    *(
        "backends/node",
        "backends/node/ranks",
        "backends/folders",
        "launch",
        "models",
        "models/runs",
        "records",
    ),
    *("metrics", "metrics/grammar", "metrics/reading", "metrics/runs"),
)


def program_files(*folders: str) -> list[str]:
    """The paths of all program files, relative to the package, including those in these folders.

    `__init__` files are left out, so that a program imports only what it names.
    """
    paths = (path for folder in (*_FOLDERS, *folders) for path in (PACKAGE / folder).glob("*.py"))
    files = [path.relative_to(PACKAGE).as_posix() for path in paths if path.name != "__init__.py"]
    return sorted([*_FILES, *files])


RUN_COMMAND = "batchai_magics.backends.node.run_command"  # runs a shell command on a node
# Any Python parses the first two steps: a version that is too old reports so before it reaches newer syntax.
_START = (
    "import os, sys; sys.version_info >= (3, 10) or sys.exit('Python 3.10 or newer is needed on the nodes,'"
    " + ' and ' + sys.executable + ' is ' + sys.version.split()[0] + ': set {section}.python');"
    " root = sys.argv.pop(1); os.path.isdir(root) or"
    " sys.exit('%s does not see %s: set {section}.home to a folder that all nodes share'"
    " % (os.environ.get('SLURMD_NODENAME', 'this node'), root));"
    # after the standard library, before packages, which may contain another version of this one
    " sites = [path for path in sys.path if path.endswith(('site-packages', 'dist-packages'))];"
    " sys.path.insert(sys.path.index(sites[0]) if sites else len(sys.path), root);"
    " from {module} import main; main()"
)


def start_words(
    python: str, module: str, programs: Path | str, *, section: str = "slurm", has_packages: bool = False
) -> list[str]:
    """The command that runs a module's `main` from a folder of programs; append the arguments to it.

    It can import only the standard library, unless `has_packages`. Errors name settings in `section`.
    """
    flags = [] if has_packages else ["-S"]
    return [python, "-I", *flags, "-c", _START.format(section=section, module=module), str(programs)]


def programs_folder() -> str:
    """The folder of programs that this program was started from."""
    return str(PACKAGE.parent)
