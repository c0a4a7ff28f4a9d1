"""What runs on nodes needs nothing but the standard library, the Plan, the errors, and its neighbours."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from batchai_magics import errors, log_lines, untrusted_files
from batchai_magics.backends import node
from batchai_magics.models import secret_masking

SHARED = [Path(module.__file__) for module in (errors, log_lines, untrusted_files, secret_masking)]
FILES = [*sorted(Path(node.__file__).parent.rglob("*.py")), *SHARED]
OURS = (
    "batchai_magics.errors",
    "batchai_magics.launch",
    "batchai_magics.launch.outcome",
    "batchai_magics.launch.plan",
    "batchai_magics.log_lines",
    "batchai_magics.models.secret_masking",
    "batchai_magics.untrusted_files",
    "batchai_magics.backends.node",
    "batchai_magics.metrics.reading.trainer_files",
)
FOLDERS = ("batchai_magics.backends.node.", "batchai_magics.models.runs.", "batchai_magics.records")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_module_of_nodes_imports_the_standard_library_alone(file):
    strange = [
        name
        for name in imported(file)
        if name.partition(".")[0] not in sys.stdlib_module_names
        and not (name in OURS or name.startswith(FOLDERS))
    ]
    assert not strange


def imported(file: Path) -> set[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    names = {alias.name for found in ast.walk(tree) if isinstance(found, ast.Import) for alias in found.names}
    return names | {found.module or "" for found in ast.walk(tree) if isinstance(found, ast.ImportFrom)}
