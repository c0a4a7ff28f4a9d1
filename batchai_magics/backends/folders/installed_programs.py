"""The programs of nodes in a home: a copy of this version's files, which all nodes see."""

from __future__ import annotations

import hashlib
import uuid
from functools import cache
from pathlib import Path

from batchai_magics.backends.folders import private_files
from batchai_magics.backends.node.node_programs import PACKAGE, program_files

_ROOT = PACKAGE.name
RUN_SCRIPT = f"{_ROOT}/backends/node/ranks/run_script.py"


def install(home: Path, program_folder: str) -> Path:
    """The folder of the current programs, with those of `program_folder`; copies them if needed."""
    target = current(home, program_folder)
    if not target.is_dir():
        part = target.with_name(uuid.uuid4().hex)
        with private_files.pipelined(part):
            for name in program_files(program_folder):
                private_files.write(part / _ROOT / name, (PACKAGE / name).read_text(encoding="utf-8"))
            (part / _ROOT / "__init__.py").touch()  # hides an installed package of the same name
        try:
            part.rename(target)
        except OSError:  # another process was faster
            private_files.remove_folder(part)
    return target


def current(home: Path, program_folder: str) -> Path:
    """The folder that `install` copies the programs to; makes no I/O in it."""
    return folder_of(home) / _digest(program_folder)


def folder_of(home: Path) -> Path:
    """The folder of a home's programs, with a subfolder for each version."""
    return home / "programs"


@cache
def _digest(program_folder: str) -> str:
    digest = hashlib.sha256()
    for name in program_files(program_folder):
        digest.update(name.encode() + b"\0" + (PACKAGE / name).read_bytes())
    return digest.hexdigest()[:16]
