"""The codes of warnings are known to all that tell them from failures."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import batchai_magics
from batchai_magics.backends.ray.gateway import UNAVAILABLE
from batchai_magics.backends.ray.runner import ELSEWHERE
from batchai_magics.models.states import WARNINGS

PACKAGE = Path(batchai_magics.__file__).parent
DOUBTS = {UNAVAILABLE, *ELSEWHERE}  # about a run on Ray: their codes are those of a mapping


def codes_in(file: Path) -> set[str]:
    """The codes of the warnings that a module adds to outcomes, as texts or by the names of its constants."""
    module = ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts)
    found = set()
    for call in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "warned":
            for part in ast.walk(call.args[0]):
                if isinstance(part, ast.Constant):
                    found.add(part.value)
                elif isinstance(part, ast.Name):
                    found.add(getattr(importlib.import_module(module), part.id, part.id))
    return found


def test_what_is_added_to_an_outcome_as_a_warning_is_shown_as_one() -> None:
    files = [file for file in PACKAGE.rglob("*.py") if b".warned(" in file.read_bytes()]
    codes = set().union(*map(codes_in, files)) - {"code", "is_export"}
    assert {"MpiNotUsed", "SlurmUnavailable"} < codes
    assert codes | DOUBTS <= WARNINGS
