"""The programs of nodes, copied once to a shared home; there they need only Python."""

from __future__ import annotations

import hashlib
import uuid
from functools import cache
from pathlib import Path

from batchai_magics.backends.node.program_files import PACKAGE, program_files
from batchai_magics.backends.service import private_files

_ROOT = PACKAGE.name
RUN_SCRIPT = f"{_ROOT}/backends/node/ranks/run_script.py"


def installed(home: Path) -> Path:
    """The folder of the current programs; copies them there if necessary."""
    target = current(home)
    if not target.is_dir():
        part = target.with_name(uuid.uuid4().hex)
        with private_files.pipelined(part):
            for name in _names():
                private_files.write(part / _ROOT / name, (PACKAGE / name).read_text(encoding="utf-8"))
            (part / _ROOT / "__init__.py").touch()  # hides an installed package of the same name
        try:
            part.rename(target)
        except OSError:  # another process was faster
            private_files.remove_folder(part)
    return target


def current(home: Path) -> Path:
    """The folder that `installed` copies the programs to; makes no I/O in it."""
    return folder(home) / _digest()


def folder(home: Path) -> Path:
    """The folder of a home's programs, with a subfolder for each version."""
    return home / "programs"


def _names() -> list[str]:
    return program_files("backends/slurm/node")


@cache
def _digest() -> str:
    digest = hashlib.sha256()
    for name in _names():
        digest.update(name.encode() + b"\0" + (PACKAGE / name).read_bytes())
    return digest.hexdigest()[:16]
