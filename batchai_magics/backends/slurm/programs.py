"""The programs of nodes, copied once to a home that nodes share: there they need Python alone."""

from __future__ import annotations

import hashlib
import uuid
from functools import cache
from pathlib import Path

from batchai_magics.backends.service import private_files

_PACKAGE = Path(__file__).parents[2]
_ROOT = _PACKAGE.name
# What runs on nodes, with all that it imports: the standard library and these.
_FILES = (
    "launch/plan.py",
    "backends/service/remote_path.py",
    "launch/references.py",
    "launch/typed_json.py",
    "backends/service/private_files.py",
    "backends/folders/layout.py",
    "backends/folders/run_end.py",
    "models/states.py",
    # what reads logs for `--stop-if`
    "backends/folders/stop_order.py",
    "backends/folders/stop_watch.py",
    "backends/service/log_records.py",
    "errors.py",
    "metrics/json_values.py",
    "metrics/record.py",
    "metrics/runs/other_programs.py",
    "metrics/runs/stop_evaluation.py",
    "metrics/runs/tidy_table.py",
    "models/stop_conditions.py",
    "options/regular_expressions.py",
)
_FOLDERS = (
    *("backends/node", "backends/node/ranks", "backends/slurm/node"),
    *("metrics/formats", "metrics/reading"),
)
RUN_SCRIPT = f"{_ROOT}/backends/node/ranks/run_script.py"


def installed(home: Path) -> Path:
    """The folder of the programs as they are now; they are copied there unless they are there."""
    inside = current(home)
    if not inside.is_dir():
        part = inside.with_name(uuid.uuid4().hex)
        with private_files.at_once(part):
            for name in _names():
                private_files.write(part / _ROOT / name, (_PACKAGE / name).read_text(encoding="utf-8"))
            (part / _ROOT / "__init__.py").touch()  # else one that is installed there would come before it
        try:
            part.rename(inside)
        except OSError:  # another process was first
            private_files.remove_folder(part)
    return inside


def current(home: Path) -> Path:
    """The folder that `installed` copies the programs to; nothing is read there."""
    return folder(home) / _digest()


def folder(home: Path) -> Path:
    """Where the programs of a home are, those of each version in a folder of their own."""
    return home / "programs"


def _names() -> list[str]:
    """The files, by their paths in the package; no folder of them has a module that loads more."""
    inside = [path.relative_to(_PACKAGE) for folder in _FOLDERS for path in (_PACKAGE / folder).glob("*.py")]
    return sorted({*_FILES, *map(str, inside)})


@cache
def _digest() -> str:
    digest = hashlib.sha256()
    for name in _names():
        digest.update(name.encode() + b"\0" + (_PACKAGE / name).read_bytes())
    return digest.hexdigest()[:16]
