"""Exports of a package that are imported on first use, listed once: in its stub, `__init__.pyi`.

The library lazy_loader does the same, but supervisors start without third-party packages, and quickly.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def attach_stub(
    package: str, file: str, *, keeps_loaded: bool = True
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of the package whose `__init__.py` is `file`.

    The stub beside it has one `from .module import name as name` for each module. Other names raise
    AttributeError, as everywhere. `keeps_loaded`: a name that was used once is an attribute of the package.
    """
    homes = {}  # the module of each name
    stub = Path(file).with_suffix(".pyi").read_text(encoding="utf-8")
    for statement in f"\n{stub}".split("\nfrom .")[1:]:
        module, _, names = statement.partition(" import ")
        listed = names[1:].partition(")")[0] if names.startswith("(") else names.partition("\n")[0]
        for item in listed.split(","):
            if exported := item.partition(" as ")[0].strip():
                homes[exported] = module

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        exported = getattr(importlib.import_module(f"{package}.{homes[name]}"), name)
        if keeps_loaded:  # where the next import finds it
            setattr(sys.modules[package], name, exported)
        return exported

    return load, lambda: sorted(homes), sorted(homes)
