"""The programs of nodes, copied once to a shared home; there they need only Python."""

from __future__ import annotations

import hashlib
import uuid
from functools import cache
from pathlib import Path

from batchai_magics.backends.service import private_files

_PACKAGE = Path(__file__).parents[2]
_ROOT = _PACKAGE.name
# What runs on nodes, and everything it imports beyond the standard library.
_FILES = (
    "launch/plan.py",
    "backends/service/remote_path.py",
    "launch/references.py",
    "backends/service/private_files.py",
    "backends/folders/layout.py",
    "backends/folders/run_end.py",
    "models/states.py",
    # watches the run
    "backends/folders/outbox.py",
    "backends/folders/run_measures.py",
    "backends/folders/run_watch.py",
    "backends/folders/stop_order.py",
    "backends/service/log_records.py",
    "errors.py",
    "log_lines.py",
    "metrics/json_values.py",
    "metrics/record.py",
    "metrics/runs/metric_traits.py",
    "metrics/runs/other_programs.py",
    "metrics/runs/stop_evaluation.py",
    "metrics/runs/tidy_table.py",
    "models/prices.py",
    "models/stop_conditions.py",
    "options/regular_expressions.py",
)
_FOLDERS = (
    *("backends/node", "backends/node/ranks", "backends/slurm/node"),
    *("metrics/formats", "metrics/grammar", "metrics/progress", "metrics/reading", "records"),
)
RUN_SCRIPT = f"{_ROOT}/backends/node/ranks/run_script.py"


def installed(home: Path) -> Path:
    """The folder of the current programs; copies them there if necessary."""
    target = current(home)
    if not target.is_dir():
        part = target.with_name(uuid.uuid4().hex)
        with private_files.pipelined(part):
            for name in _names():
                private_files.write(part / _ROOT / name, (_PACKAGE / name).read_text(encoding="utf-8"))
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
    """Their paths relative to the package; no `__init__` on these paths imports anything else."""
    target = [path.relative_to(_PACKAGE) for folder in _FOLDERS for path in (_PACKAGE / folder).glob("*.py")]
    return sorted({*_FILES, *map(str, target)})


@cache
def _digest() -> str:
    digest = hashlib.sha256()
    for name in _names():
        digest.update(name.encode() + b"\0" + (_PACKAGE / name).read_bytes())
    return digest.hexdigest()[:16]
