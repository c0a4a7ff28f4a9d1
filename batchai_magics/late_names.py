"""Names of a package that are loaded when they are first asked for: a command needs few of them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def late_names(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package whose names live in other modules of ours.

    `homes` maps each name to its module, without what all of them begin with: `{"Parser":
    "metrics.reading.parser"}`. Other names raise AttributeError, as everywhere.
    """
    ours = __name__.partition(".")[0]

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{ours}.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: sorted(homes)
